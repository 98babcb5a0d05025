"""JSON Schemas of the documents that Rescale answers with and leaves beside a target."""
