variable "name_prefix" {
  description = "What names begin with: the installation's name_prefix, or another one where installations share the endpoints."
  type        = string
  default     = "triad-"
  nullable    = false
}

variable "vpc_id" {
  description = "VPC of the functions and brokers. It must have DNS support and DNS host names turned on."
  type        = string
  nullable    = false
  validation {
    condition     = startswith(var.vpc_id, "vpc-")
    error_message = "vpc_id: give the id of a VPC, vpc-…."
  }
}

variable "subnet_ids" {
  description = "Subnets for the interfaces, one a zone: those of the functions."
  type        = list(string)
  nullable    = false
  validation {
    condition     = length(var.subnet_ids) > 0 && alltrue([for id in var.subnet_ids : startswith(id, "subnet-")])
    error_message = "subnet_ids: give at least one subnet-…."
  }
}

variable "route_table_ids" {
  description = "Route tables of the functions' subnets, for the gateways."
  type        = list(string)
  nullable    = false
  validation {
    condition     = length(var.route_table_ids) > 0 && alltrue([for id in var.route_table_ids : startswith(id, "rtb-")])
    error_message = "route_table_ids: give at least one rtb-…."
  }
}

variable "client_security_group_ids" {
  description = "Security groups that may reach the interfaces: those of the functions, and with mappings in plain mode those of the brokers."
  type        = list(string)
  nullable    = false
  validation {
    condition     = length(var.client_security_group_ids) > 0 && alltrue([for id in var.client_security_group_ids : startswith(id, "sg-")])
    error_message = "client_security_group_ids: give at least one sg-…."
  }
}

variable "interfaces" {
  description = <<-EOT
    Services with an interface. lambda: the function `setup`, agents of functions, mappings in plain mode. sns: the function
    `alerts`. secretsmanager: credentials of brokers and agents. sts: mappings in plain mode. monitoring, scheduler: what
    `triad doctor` asks. sqs: agents of queues. One that the VPC has already must be left out.
  EOT
  type        = set(string)
  default     = ["lambda", "monitoring", "scheduler", "secretsmanager", "sns"]
  nullable    = false
  validation {
    condition     = length(setsubtract(var.interfaces, ["execute-api", "lambda", "logs", "monitoring", "scheduler", "secretsmanager", "sns", "sqs", "sts"])) == 0
    error_message = "interfaces: use execute-api, lambda, logs, monitoring, scheduler, secretsmanager, sns, sqs and sts; nothing here calls another service."
  }
}

variable "tags" {
  description = "Tags of every resource that takes them."
  type        = map(string)
  default     = {}
  nullable    = false
}
