# The installation as a whole: its name, its network, its encryption, its protection.

variable "name_prefix" {
  description = "What the names of all resources begin with, of Kafka's topics and consumer groups too; TRIAD_PREFIX. It keeps installations apart in one account and on one cluster."
  type        = string
  default     = "triad-"
  nullable    = false
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,18}-$", var.name_prefix))
    error_message = "name_prefix: use 2 to 20 lower-case letters, digits and hyphens, beginning with a letter and ending with a hyphen, such as \"shop-\". Longer ones do not fit into the names of buckets."
  }
}

variable "tags" {
  description = "Tags of every resource that takes them."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "vpc" {
  description = "Subnets and security groups from which the functions reach the brokers and the agents' services. Null: the functions run outside of any VPC and the brokers have public addresses."
  type = object({
    subnet_ids         = list(string)
    security_group_ids = list(string)
  })
  default = null
  validation {
    condition = var.vpc == null || try(
      length(var.vpc.subnet_ids) > 0 && length(var.vpc.security_group_ids) > 0 &&
      alltrue([for id in var.vpc.subnet_ids : startswith(id, "subnet-")]) &&
      alltrue([for id in var.vpc.security_group_ids : startswith(id, "sg-")]), false
    )
    error_message = "vpc: give at least one subnet-… and at least one sg-…, or leave vpc out."
  }
  validation {
    condition     = var.vpc != null || var.kafka.msk_cluster_arn == null
    error_message = "vpc: the functions write to the MSK cluster from inside its VPC; give subnet_ids and security_group_ids that reach its brokers."
  }
  validation {
    condition     = var.vpc != null || var.kafka.msk_cluster_arn != null || contains(["scram", "mtls"], var.kafka.auth)
    error_message = "vpc: Lambda reads brokers outside of MSK either from inside a VPC (give vpc) or with credentials (kafka.auth scram or mtls)."
  }
}

variable "kms_key_arn" {
  description = "Customer key for the tables, logs, environment variables, alerts and kept records. Null: the module makes one. A key of your own needs the statements that README.md lists."
  type        = string
  default     = null
  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$", var.kms_key_arn))
    error_message = "kms_key_arn: give the ARN of a key (arn:aws:kms:REGION:ACCOUNT:key/ID), not of an alias and not an id alone."
  }
}

variable "deletion_protection" {
  description = "Refuse to delete the tables, and a failure bucket that is not empty. README.md says how an installation is destroyed."
  type        = bool
  default     = true
  nullable    = false
}

variable "permissions_boundary_arn" {
  description = "Permissions boundary of the roles, where an organisation demands one."
  type        = string
  default     = null
  validation {
    condition     = var.permissions_boundary_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9a-z]+:policy/.+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn: give the ARN of a managed policy (arn:aws:iam::ACCOUNT:policy/NAME)."
  }
}
