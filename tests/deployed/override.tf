# What is other than in the cloud: how the provider finds AWS, the brokers, and the services. Put
# beside the copy of the example by the deployed test.

provider "aws" {
  # There is no S3 under names of buckets on loopback.
  s3_use_path_style = true
}

module "triad" {
  source       = "../infra"
  architecture = var.architecture

  # Event source mappings of MSK need MSK.
  kafka = {
    brokers       = var.brokers
    auth          = "scram"
    secret_arn    = var.login_secret
    ca_secret_arn = var.ca_secret
  }

  agents = {
    inventory = { base_url = "${var.service}/inventory" }
    payment   = { base_url = "${var.service}/payment" }
    carrier   = { base_url = "${var.service}/carrier" }
    receipt   = { lambda = "receipt" }
    parcels   = { sqs = "https://sqs.us-east-1.amazonaws.com/000000000000/parcels.fifo" }
  }

  # There is one broker.
  topics = {
    replication         = 1
    min_insync_replicas = 1
  }

  # The emulator asks a topic's policy about S3 as over an unencrypted connection.
  failure_bucket_arn = "arn:aws:s3:::${var.failure_bucket}"
}
