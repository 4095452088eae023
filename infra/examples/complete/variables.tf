variable "region" {
  description = "Region of the MSK cluster and of everything here."
  type        = string
}

variable "name_prefix" {
  description = "What all names begin with."
  type        = string
  default     = "shop-"
}

variable "cluster_name" {
  description = "Name of the MSK cluster; it must have IAM access control."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets from which the brokers, DynamoDB and the agents' services are reached."
  type        = list(string)
}

variable "security_group_ids" {
  description = "Security groups that the brokers let in."
  type        = list(string)
}

variable "packages_directory" {
  description = "Where the functions' zips are: submission.zip, scheduler.zip, agent.zip, supervisor.zip, alerts.zip, setup.zip, console.zip."
  type        = string
}

variable "payment_secret_arn" {
  description = "Secret in Secrets Manager whose text is the token for the payment service."
  type        = string
}

variable "on_call_email" {
  description = "Who gets alerts and alarms."
  type        = string
}

variable "console_tokens" {
  description = "Who is let in at the console behind a URL: lines of `triad token NAME --role operate`; none: there is no console."
  type        = list(string)
  default     = []
}

variable "deletion_protection" {
  description = "False before a destroy: see README.md of the module."
  type        = bool
  default     = true
}
