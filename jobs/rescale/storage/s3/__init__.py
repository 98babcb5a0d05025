"""S3, and what speaks its protocol: a store over boto3, and the requests that it is made of."""
