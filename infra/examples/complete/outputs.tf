output "triad" {
  description = "The installation, for `triad --from-terraform`."
  value       = module.triad.triad
}

output "console_url" {
  description = "Where the console is, if there is one."
  value       = module.triad.console_url
}

output "kms_key_arn" {
  description = "The customer key."
  value       = module.triad.kms_key_arn
}
