terraform {
  required_version = ">= 1.11"
  required_providers {
    # 5.100 is what the checks run with. It has no poller groups and takes no Kafka topic as a
    # failure destination: see pollers.tf and failures.tf.
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}
