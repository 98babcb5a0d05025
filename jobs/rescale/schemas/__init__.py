"""JSON Schemas of the documents that Rescale prints and leaves beside a target."""
