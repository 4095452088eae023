output "table_arns" {
  description = "ARNs of the tables, for the functions' roles."
  value = {
    orders      = aws_dynamodb_table.orders.arn
    order_state = aws_dynamodb_table.order_state.arn
    workflows   = aws_dynamodb_table.workflows.arn
  }
}

output "due_index_arn" {
  description = "ARN of the due index, for the Supervisor's role."
  value       = "${aws_dynamodb_table.order_state.arn}/index/due"
}
