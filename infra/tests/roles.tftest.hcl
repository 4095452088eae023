# What the roles may do: exact actions, exact resources. tests/infra/policies.py checks the same
# policies against AWS's own list of actions.

mock_provider "aws" {
  source = "./tests/mocks"
}

run "exact_actions_on_exact_resources" {
  command = apply
  variables {
    reply_topics = ["reply.shop"]
  }

  assert {
    condition = alltrue([
      for policy in aws_iam_role_policy.function : alltrue([
        for statement in jsondecode(policy.policy).Statement : alltrue([for action in statement.Action : !strcontains(action, "*")])
      ])
    ])
    error_message = "no wildcard in any action"
  }
  assert {
    condition = toset(flatten([
      for policy in aws_iam_role_policy.function : [
        for statement in jsondecode(policy.policy).Statement : statement.Sid if contains(statement.Resource, "*")
      ]
    ])) == toset(["Traces", "NetworkInterfacesOfLambda", "NetworkInterfacesNotOfTheCode", "MskBootstrapBrokers", "LooksAtMappings"])
    error_message = "resource * only where AWS has no narrower one: X-Ray, network interfaces, MSK's bootstrap addresses, the list of mappings"
  }
  assert {
    condition = toset(flatten([
      for policy in aws_iam_role_policy.function : [
        for statement in jsondecode(policy.policy).Statement : [
          for resource in statement.Resource : statement.Sid if resource != "*" && strcontains(resource, "*")
        ]
      ]
    ])) == toset(["OwnLogs", "KeepRecords", "SetsPollers", "LooksAtAlarms", "LooksAtFunctions", "LooksAtRoles"])
    error_message = "a * at the end of a name only where Lambda makes up the name, or setup looks at what has the prefix"
  }
  assert {
    condition = alltrue(flatten([
      for policy in aws_iam_role_policy.function : [
        for statement in jsondecode(policy.policy).Statement : [
          for resource in statement.Resource : length(split("*", resource)) == 2 && endswith(resource, "*")
        ] if contains(["OwnLogs", "KeepRecords", "SetsPollers", "LooksAtAlarms", "LooksAtFunctions", "LooksAtRoles"], statement.Sid)
      ]
    ]))
    error_message = "and there at the very end"
  }
  assert {
    condition = alltrue([
      for policy in aws_iam_role_policy.function : alltrue([
        for statement in jsondecode(policy.policy).Statement :
        length(regexall("NotAction|NotResource", jsonencode(keys(statement)))) == 0 && contains(["Allow", "Deny"], statement.Effect)
      ])
    ])
    error_message = "no statement by exclusion"
  }
  assert {
    condition     = toset(keys(aws_iam_role.function)) == toset(keys(aws_lambda_function.this))
    error_message = "a role a function"
  }
  assert {
    condition = alltrue([
      for role in aws_iam_role.function :
      [for s in jsondecode(role.assume_role_policy).Statement : "${s.Principal.Service} ${s.Action}"] == ["lambda.amazonaws.com sts:AssumeRole"]
    ])
    error_message = "only Lambda takes the roles"
  }
  assert {
    condition = join(" ", flatten([
      for s in jsondecode(aws_iam_role_policy.schedule.policy).Statement : [s.Effect, s.Action, s.Resource]
    ])) == "Allow lambda:InvokeFunction ${local.function_arns.supervisor}"
    error_message = "the schedule starts the Supervisor and nothing else"
  }
  assert {
    condition = jsonencode({
      for function, statements in local.statements : function => sort(flatten([
        for s in statements : [for arn in s.Resource : trimprefix(arn, "arn:aws:kafka:eu-west-1:111122223333:topic/shop/0a1b2c3d-0000-0000-0000-000000000000-1/triad-")] if s.Sid == "KafkaWrites"
      ]))
      }) == jsonencode({
      submission      = ["alerts", "dead-letter", "reply.shop", "scheduler", "scheduler.high", "status"]
      scheduler       = ["agent.inventory", "agent.inventory.high", "agent.payment", "agent.payment.high", "alerts", "dead-letter", "reply.shop", "scheduler", "scheduler.high", "status"]
      supervisor      = ["alerts", "reply.shop", "scheduler", "scheduler.high", "status"]
      alerts          = ["alerts", "dead-letter"]
      agent-payment   = ["alerts", "dead-letter", "scheduler", "scheduler.high"]
      setup           = []
      agent-inventory = ["alerts", "dead-letter", "scheduler", "scheduler.high"]
    })
    error_message = "topics that a function writes"
  }
  assert {
    condition = jsonencode({
      for function, statements in local.statements : function => sort(flatten([
        for s in statements : [for arn in s.Resource : trimprefix(element(split("/", arn), 3), "triad-")] if s.Sid == "KafkaReads"
      ]))
      }) == jsonencode({
      submission      = ["orders", "orders.high"]
      scheduler       = ["events", "scheduler", "scheduler.high"]
      supervisor      = []
      alerts          = ["alerts"]
      setup           = []
      agent-payment   = ["agent.payment", "agent.payment.high"]
      agent-inventory = ["agent.inventory", "agent.inventory.high"]
    })
    error_message = "topics that are read for a function"
  }
  assert {
    condition = flatten([for s in local.statements["agent-payment"] : s.Resource if s.Sid == "KafkaGroups"]) == [
      "arn:aws:kafka:eu-west-1:111122223333:group/shop/0a1b2c3d-0000-0000-0000-000000000000-1/triad-agent.payment",
      "arn:aws:kafka:eu-west-1:111122223333:group/shop/0a1b2c3d-0000-0000-0000-000000000000-1/triad-agent.payment.high",
    ]
    error_message = "only its own consumer groups"
  }
  assert {
    condition     = length([for s in local.statements["supervisor"] : s if startswith(s.Sid, "Msk")]) == 0
    error_message = "the Supervisor has no mapping and needs nothing for one"
  }
  assert {
    condition = jsonencode(sort(flatten([
      for function, statements in local.statements : [
        for s in statements : [
          for pair in setproduct(s.Action, s.Resource) :
          "${function} ${trimprefix(pair[0], "dynamodb:")} ${trimprefix(pair[1], "arn:aws:dynamodb:eu-west-1:111122223333:table/")}"
        ] if startswith(s.Action[0], "dynamodb:")
      ]
      ]))) == jsonencode(sort([
      "submission PutItem triad-orders",
      "submission BatchGetItem triad-order-state",
      "submission GetItem triad-order-state",
      "submission PutItem triad-order-state",
      "submission GetItem triad-workflows",
      "scheduler BatchGetItem triad-orders",
      "scheduler GetItem triad-orders",
      "scheduler PutItem triad-orders",
      "scheduler UpdateItem triad-orders",
      "scheduler BatchGetItem triad-order-state",
      "scheduler GetItem triad-order-state",
      "scheduler PutItem triad-order-state",
      "scheduler GetItem triad-workflows",
      "scheduler GetItem triad-control",
      "scheduler PutItem triad-control",
      "supervisor GetItem triad-orders",
      "supervisor UpdateItem triad-orders",
      "supervisor BatchGetItem triad-order-state",
      "supervisor GetItem triad-order-state",
      "supervisor PutItem triad-order-state",
      "supervisor GetItem triad-workflows",
      "supervisor GetItem triad-control",
      "supervisor PutItem triad-control",
      "supervisor Query triad-order-state/index/due",
      "supervisor Query triad-order-state/index/attention",
      "agent-inventory GetItem triad-control",
      "agent-inventory PutItem triad-control",
      "agent-payment GetItem triad-control",
      "agent-payment PutItem triad-control",
      "setup GetItem triad-workflows",
      "setup PutItem triad-workflows",
      "setup DescribeTable triad-control",
      "setup DescribeTable triad-order-state",
      "setup DescribeTable triad-orders",
      "setup DescribeTable triad-workflows",
      "setup DescribeTimeToLive triad-control",
      "setup DescribeTimeToLive triad-order-state",
      "setup DescribeTimeToLive triad-orders",
      "setup DescribeTimeToLive triad-workflows",
    ]))
    error_message = "which function does what on which table"
  }
  assert {
    condition = alltrue([
      for function, statements in local.statements : alltrue([
        for s in statements :
        s.Effect == "Deny" && s.Condition.ArnEquals["lambda:SourceFunctionArn"] == local.function_arns[function]
        if s.Sid == "NetworkInterfacesNotOfTheCode"
      ])
    ])
    error_message = "a function's code may not do what Lambda does with its network"
  }
  assert {
    condition = alltrue([
      for s in flatten(values(local.statements)) : s.Condition.StringEquals["s3:ResourceAccount"] == "111122223333" if startswith(s.Action[0], "s3:")
    ])
    error_message = "records are kept in a bucket of this account only"
  }
  assert {
    condition = toset([
      for function, statements in local.statements : function if length([for s in statements : s if startswith(s.Action[0], "s3:")]) > 0
    ]) == toset(["scheduler", "agent-payment", "agent-inventory"])
    error_message = "only functions of lanes that give records up may keep them"
  }
  assert {
    condition = (
      flatten([for s in local.statements.alerts : s.Resource if contains(s.Action, "sns:Publish")]) == ["arn:aws:sns:eu-west-1:111122223333:triad-alerts"] &&
      length([for s in flatten([for f, x in local.statements : x if f != "alerts"]) : s if contains(s.Action, "sns:Publish")]) == 0
    )
    error_message = "the alerts function alone publishes to the alerts topic"
  }
}

run "what_caps_need" {
  command = plan
  variables {
    admission = { max_in_flight_per_workflow = { small = 1 } }
  }

  assert {
    condition = jsonencode(sort([
      for function, statements in local.statements : function if length([for s in statements : s if s.Sid == "WhatIsDue"]) > 0
    ])) == jsonencode(["scheduler", "submission", "supervisor"])
    error_message = "who counts, lets in and finds what is overdue reads the due index"
  }
}

run "a_cap_on_all_orders_is_counted_by_submission" {
  command = plan
  variables {
    admission = { max_in_flight = 100 }
  }

  assert {
    condition = jsonencode(sort([
      for function, statements in local.statements : function if length([for s in statements : s if s.Sid == "WhatIsDue"]) > 0
    ])) == jsonencode(["submission", "supervisor"])
    error_message = "no order is set aside, so the Scheduler looks for none"
  }
}

run "secrets_by_arn_and_keys_by_service" {
  command = plan
  variables {
    kafka = {
      brokers               = "kafka-1.example:9093"
      auth                  = "scram"
      secret_arn            = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf"
      secret_kms_key_arn    = "arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555"
      ca_secret_arn         = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/ca-GhIjKl"
      ca_secret_kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/88888888-2222-3333-4444-555555555555"
    }
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"
  }

  assert {
    condition = alltrue([
      for statements in local.statements :
      flatten([for s in statements : s.Resource if contains(s.Action, "secretsmanager:GetSecretValue")]) == [var.kafka.secret_arn, var.kafka.ca_secret_arn]
    ])
    error_message = "every function reads the two secrets, and no other"
  }
  assert {
    condition = alltrue([
      for statements in local.statements : alltrue([
        for s in statements : try(s.Condition.StringEquals["kms:ViaService"], null) != null if startswith(s.Action[0], "kms:")
      ])
    ])
    error_message = "keys are used through services only"
  }
  assert {
    condition = alltrue([
      for at, arn in [var.kafka.secret_arn, var.kafka.ca_secret_arn] : alltrue([
        for statements in local.statements : alltrue([
          for s in statements :
          s.Condition.StringEquals["kms:EncryptionContext:SecretARN"] == arn if s.Sid == "KafkaSecretKey${at}"
        ])
      ])
    ])
    error_message = "a secret's key opens that secret only"
  }
  assert {
    condition = length([
      for s in flatten(values(local.statements)) : s if startswith(s.Action[0], "kafka-cluster:") || startswith(s.Action[0], "kafka:")
    ]) == 0
    error_message = "outside of MSK no permission for it"
  }
  assert {
    condition = flatten([for s in local.statements.alerts : s.Condition.StringEquals["kms:ViaService"] if s.Sid == "Key"]) == [
      "lambda.eu-west-1.amazonaws.com", "sns.eu-west-1.amazonaws.com",
    ]
    error_message = "the alerts function uses the key for its environment and for SNS"
  }
}

run "outside_of_a_vpc_without_traces_within_a_boundary" {
  command = plan
  variables {
    vpc                      = null
    tracing                  = false
    permissions_boundary_arn = "arn:aws:iam::111122223333:policy/boundary"
    kafka = {
      brokers    = "kafka-1.example:9093"
      auth       = "mtls"
      secret_arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf"
    }
  }
  assert {
    condition     = [for s in flatten(values(local.statements)) : s.Sid if contains(s.Resource, "*")] == ["LooksAtMappings"]
    error_message = "then there is no resource * but for the list of mappings"
  }
  assert {
    condition = alltrue([
      for role in concat(values(aws_iam_role.function), [aws_iam_role.schedule]) : role.permissions_boundary == var.permissions_boundary_arn
    ])
    error_message = "every role has the boundary"
  }
}
