# What each function's role may do: exact actions on exact resources.
#
# The exceptions, and no others (tests/roles.tftest.hcl and tests/infra/policies.py hold this):
# - resource "*" for actions that AWS offers no narrower resource for, or that Lambda demands it
#   for: the network interfaces of a function in a VPC, MSK's bootstrap addresses, X-Ray, the list of mappings;
# - a "*" at the end of names that Lambda makes up: log streams, objects of kept records, mappings;
# - a "*" after the prefix of functions, roles and alarms at which `setup` looks.

locals {
  # Tables. A transaction of puts needs PutItem on each table; IAM has no action for transactions.
  table_actions = {
    submission = [
      { table = "orders", actions = ["dynamodb:PutItem"] },
      { table = "order_state", actions = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"] },
      { table = "workflows", actions = ["dynamodb:GetItem"] },
    ]
    scheduler = [
      { table = "orders", actions = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"] },
      { table = "order_state", actions = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"] },
      { table = "workflows", actions = ["dynamodb:GetItem"] },
      { table = "control", actions = ["dynamodb:GetItem", "dynamodb:PutItem"] },
    ]
    # The roles that end an order, or begin a new run of it, set when the items beside its record expire.
    supervisor = [
      { table = "orders", actions = ["dynamodb:GetItem", "dynamodb:UpdateItem"] },
      { table = "order_state", actions = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"] },
      { table = "workflows", actions = ["dynamodb:GetItem"] },
      { table = "control", actions = ["dynamodb:GetItem", "dynamodb:PutItem"] },
    ]
    alerts = []
    # It publishes workflows. What else it does is in policies_setup.tf.
    setup = [
      { table = "workflows", actions = ["dynamodb:GetItem", "dynamodb:PutItem"] },
    ]
    # It shows what is there, and carries operators' acts out.
    console = [
      { table = "orders", actions = concat(["dynamodb:GetItem"], local.console_acts ? ["dynamodb:UpdateItem"] : []) },
      { table = "order_state", actions = concat(["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Scan"], local.console_writes) },
      { table = "workflows", actions = ["dynamodb:GetItem", "dynamodb:Scan"] },
      { table = "control", actions = concat(["dynamodb:GetItem"], local.console_writes) },
    ]
    agent = [
      { table = "control", actions = ["dynamodb:GetItem", "dynamodb:PutItem"] },
    ]
  }
  console_writes = local.console_acts ? ["dynamodb:PutItem"] : []
  # The Supervisor finds what is overdue. Where there are caps, Submission counts what is under way; where
  # workflows have caps the Scheduler finds which order to let in.
  has_workflow_caps = length(var.admission.max_in_flight_per_workflow) > 0
  has_caps          = local.has_workflow_caps || var.admission.max_in_flight != null
  reads_due_index = concat(
    ["console", "supervisor"],
    local.has_caps ? ["submission"] : [],
    local.has_workflow_caps ? ["scheduler"] : [],
  )

  # The functions' kinds: all agents are of one.
  kinds = { for function in keys(local.functions) : function => startswith(function, "agent-") ? "agent" : function }

  read_by_function = {
    for function in keys(local.functions) : function => [for topic, reader in local.read_by : topic if reader == function]
  }

  table_statements = {
    for kind, tables in local.table_actions : kind => [
      for t in tables : {
        Sid      = "Table${replace(title(replace(t.table, "_", " ")), " ", "")}"
        Effect   = "Allow"
        Action   = t.actions
        Resource = [local.table_arns[t.table]]
      }
    ]
  }

  index_statement = {
    Sid      = "WhatIsDue"
    Effect   = "Allow"
    Action   = ["dynamodb:Query"]
    Resource = [local.due_index_arn]
  }

  # The Supervisor carries operators' campaigns on: it finds what needs them. The console shows it.
  attention_statement = {
    Sid      = "WhatNeedsAnOperator"
    Effect   = "Allow"
    Action   = ["dynamodb:Query"]
    Resource = [local.attention_index_arn]
  }

  search_statement = {
    Sid      = "WhatHasASearchKey"
    Effect   = "Allow"
    Action   = ["dynamodb:Query"]
    Resource = local.search_index_arns
  }

  # The key's use is bound to the services through which it is used.
  key_services = {
    for kind in keys(local.table_actions) : kind => concat(
      ["lambda"],
      length(local.table_actions[kind]) > 0 ? ["dynamodb"] : [],
      kind == "alerts" ? ["sns"] : [],
    )
  }

  log_statements = {
    for function in keys(local.functions) : function => {
      Sid      = "OwnLogs"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
      Resource = ["arn:${local.partition}:logs:${local.arn_tail}:log-group:${local.log_group_names[function]}:log-stream:*"]
    }
  }

  trace_statements = var.tracing ? [{
    Sid      = "Traces"
    Effect   = "Allow"
    Action   = ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]
    Resource = ["*"]
  }] : []

  # Lambda makes the network interfaces with the function's role; the function's own code may not.
  network_actions = [
    "ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs",
    "ec2:UnassignPrivateIpAddresses",
  ]
  network_statements = {
    for function in keys(local.functions) : function => var.vpc == null ? [] : [
      {
        Sid       = "NetworkInterfacesOfLambda"
        Effect    = "Allow"
        Action    = local.network_actions
        Resource  = ["*"]
        Condition = { StringEquals = { "aws:RequestedRegion" = local.region } }
      },
      {
        Sid       = "NetworkInterfacesNotOfTheCode"
        Effect    = "Deny"
        Action    = local.network_actions
        Resource  = ["*"]
        Condition = { ArnEquals = { "lambda:SourceFunctionArn" = local.function_arns[function] } }
      },
    ]
  }

  # Secrets of the brokers, read by the function and by Lambda for its mappings.
  secrets = concat(
    var.kafka.secret_arn == null ? [] : [{ arn = var.kafka.secret_arn, key = var.kafka.secret_kms_key_arn }],
    var.kafka.ca_secret_arn == null ? [] : [{ arn = var.kafka.ca_secret_arn, key = var.kafka.ca_secret_kms_key_arn }],
  )
  secret_statements = concat(
    length(local.secrets) == 0 ? [] : [{
      Sid      = "KafkaSecrets"
      Effect   = "Allow"
      Action   = ["secretsmanager:GetSecretValue"]
      Resource = local.secrets[*].arn
    }],
    [
      for at, secret in local.secrets : {
        Sid      = "KafkaSecretKey${at}"
        Effect   = "Allow"
        Action   = ["kms:Decrypt"]
        Resource = [secret.key]
        Condition = {
          StringEquals = {
            "kms:ViaService"                  = "secretsmanager.${local.region}.amazonaws.com"
            "kms:EncryptionContext:SecretARN" = secret.arn
          }
        }
      } if secret.key != null
    ],
  )

  # The secrets of each agent in Secrets Manager.
  agent_secrets = {
    for name, agent in var.agents : name => distinct([
      for reference in [
        try(agent.auth.bearer, null), try(agent.auth.basic.password, null), try(agent.auth.header.value, null),
        try(agent.auth.oauth2.client_secret, null), try(agent.tls.certificate, null), try(agent.tls.key, null), try(agent.tls.ca, null),
      ] : reference.secret if can(reference.secret)
    ])
  }

  # What an agent calls in AWS, by its ARN.
  agent_targets = {
    for name, agent in var.agents : name => [
      for target in [
        {
          action   = "lambda:InvokeFunction"
          resource = agent.lambda == null || startswith(coalesce(agent.lambda, "-"), "arn:") ? agent.lambda : "arn:${local.partition}:lambda:${local.arn_tail}:function:${agent.lambda}"
        },
        {
          action = "sqs:SendMessage"
          # https://sqs.REGION.amazonaws.com/ACCOUNT/NAME
          resource = agent.sqs == null ? null : format("arn:${local.partition}:sqs:%s:%s:%s", regex("^https://sqs[.]([^.]+)[.][^/]+/([^/]+)/(.+)$", coalesce(agent.sqs, "https://sqs.-.-/-/-"))...)
        },
        { action = "sns:Publish", resource = agent.sns },
      ] : target if target.resource != null
    ]
  }

  # What an agent needs for its service alone.
  agent_statements = {
    for name, agent in var.agents : "agent-${name}" => concat(
      length(local.agent_secrets[name]) == 0 ? [] : [{
        Sid      = "AgentSecrets"
        Effect   = "Allow"
        Action   = ["secretsmanager:GetSecretValue"]
        Resource = local.agent_secrets[name]
      }],
      length(agent.secret_kms_key_arns) == 0 || length(local.agent_secrets[name]) == 0 ? [] : [{
        Sid      = "AgentSecretKeys"
        Effect   = "Allow"
        Action   = ["kms:Decrypt"]
        Resource = agent.secret_kms_key_arns
        Condition = {
          StringEquals = {
            "kms:ViaService"                  = distinct([for arn in local.agent_secrets[name] : "secretsmanager.${split(":", arn)[3]}.amazonaws.com"])
            "kms:EncryptionContext:SecretARN" = local.agent_secrets[name]
          }
        }
      }],
      [
        for target in local.agent_targets[name] : {
          Sid      = "AgentCalls"
          Effect   = "Allow"
          Action   = [target.action]
          Resource = [target.resource]
        }
      ],
      [
        for target in local.agent_targets[name] : {
          Sid      = "AgentCallsKey"
          Effect   = "Allow"
          Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource = [agent.kms_key_arn]
          Condition = {
            StringEquals = { "kms:ViaService" = "${split(":", target.resource)[2]}.${split(":", target.resource)[3]}.amazonaws.com" }
          }
        } if agent.kms_key_arn != null
      ],
    )
  }

  statements = {
    for function, kind in local.kinds : function => concat(
      [local.log_statements[function]],
      local.trace_statements,
      local.network_statements[function],
      local.table_statements[kind],
      contains(local.reads_due_index, kind) ? [local.index_statement] : [],
      contains(["console", "supervisor"], kind) ? [local.attention_statement] : [],
      kind == "console" ? [local.search_statement] : [],
      [{
        Sid      = "Key"
        Effect   = "Allow"
        Action   = kind == "alerts" ? ["kms:Decrypt", "kms:GenerateDataKey"] : ["kms:Decrypt", "kms:DescribeKey"]
        Resource = [local.kms_key_arn]
        Condition = {
          StringEquals = {
            "kms:ViaService" = [for service in local.key_services[kind] : "${service}.${local.region}.amazonaws.com"]
          }
        }
      }],
      local.secret_statements,
      lookup(local.agent_statements, function, []),
      [for statement in local.setup_statements : statement if kind == "setup"],
      local.kafka_statements[function],
      local.kept_statements[function],
      kind == "alerts" ? [{
        Sid      = "Alerts"
        Effect   = "Allow"
        Action   = ["sns:Publish"]
        Resource = [local.alerts_topic_arn]
      }] : [],
    )
  }
}
