# Where the local AWS has what the override file speaks of.

variable "brokers" {
  type = string
}

variable "login_secret" {
  type = string
}

variable "ca_secret" {
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
