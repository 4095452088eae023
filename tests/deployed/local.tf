# Where the local AWS has what the override file speaks of.

variable "brokers" {
  type = string
}

variable "service" {
  type = string
}

variable "failure_bucket" {
  type = string
}

variable "architecture" {
  type = string
}
