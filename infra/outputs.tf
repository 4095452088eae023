output "triad" {
  description = "The installation, as the command line reads it from `terraform output -json`."
  value = {
    region              = local.region
    account             = local.account
    prefix              = var.name_prefix
    tables              = local.table_names
    brokers             = var.kafka.brokers
    kafka_auth          = var.kafka.auth
    kafka_secret_arn    = var.kafka.secret_arn
    kafka_ca_secret_arn = var.kafka.ca_secret_arn
    kafka_settings      = local.kafka_settings
    agents              = keys(var.agents)
    reply_topics        = var.reply_topics
    timing              = var.timing
    topics              = local.kafka_names
    functions           = local.all_function_names
    mappings            = { for topic, mapping in aws_lambda_event_source_mapping.this : topic => mapping.uuid }
    alerts_topic_arn    = local.alerts_topic_arn
    failure_bucket_arn  = local.failure_bucket_arn
    metric_namespace    = local.metric_namespace
    setup               = local.parts
  }
}

output "console_url" {
  description = "Where the console is; null: there is none."
  value       = one(aws_lambda_function_url.console[*].function_url)
}

output "table_arns" {
  description = "ARNs of the tables, for roles of operators and for backups."
  value       = local.table_arns
}

output "index_arns" {
  description = "ARNs of the indexes, for roles of operators."
  value = {
    due       = local.due_index_arn
    attention = local.attention_index_arn
    search_1  = local.search_index_arns[0]
    search_2  = local.search_index_arns[1]
  }
}

output "kms_key_arn" {
  description = "The customer key in use."
  value       = local.kms_key_arn
}

output "role_arns" {
  description = "Roles of the functions, by function."
  value       = { for function, role in aws_iam_role.function : function => role.arn }
}

output "policies" {
  description = "What each role may do, for reviews: the policies' statements by function."
  value       = local.statements
}
