//! Values of arithmetic and functions, and the bounds of their work.

use serde_json::{Value, json};
use triad_workflow::{Expression, MAX_WORK, Scope};

fn details() -> Value {
    json!({
        "price": 19.99, "whole": 20, "tenth": 0.1, "fifth": 0.2, "count": 3, "zero": 0, "none": null,
        "high": u64::MAX, "int": i64::MAX, "low": i64::MIN, "tiny": 5e-324, "huge": f64::MAX,
        "name": " Ünïcode Straße ", "csv": "a,b,,c", "ids": [1, 2.5, "x"], "prices": [0.1, 0.2, 19.99, 1],
        "empty": [], "gift": {"note": null, "lines": [{"sku": "s"}]}, "text": "x".repeat(100_000),
    })
}

fn computed(source: &str) -> Result<Value, String> {
    let scope = Scope::new(
        &Scope::order("A1", "w", false, 1_767_322_845_678),
        &details(),
        [("gift", &Value::Null), ("first", &json!({"ok": true}))],
        None,
    );
    let expression = Expression::compile(source).expect(source);
    expression.evaluate(&scope).map_err(|error| error.reason)
}

#[track_caller]
fn all_are(table: &[(&str, Value)]) {
    for (source, wanted) in table {
        let found = computed(source).unwrap_or_else(|reason| panic!("{source}: {reason}"));
        // As texts, because 1 and 1.0 are different bytes in the input of a step.
        assert_eq!(found.to_string(), wanted.to_string(), "{source}");
    }
}

#[track_caller]
fn all_fail(table: &[(&str, &str)]) {
    for (source, wanted) in table {
        let reason = computed(source).expect_err(source);
        assert!(reason.contains(wanted), "{source}: {reason}");
    }
}

#[test]
fn arithmetic_is_of_decimals() {
    all_are(&[
        ("0.1 + 0.2", json!(0.3)),
        ("details.tenth + details.fifth", json!(0.3)),
        ("details.price * 100", json!(1999)),
        ("19.99 * 100.0", json!(1999)),
        ("int(19.99 * 100.0)", json!(1999)),
        ("14 * 9.8", json!(137.2)),
        ("details.whole * 100.0", json!(2000)),
        ("7 / 2", json!(3.5)),
        ("6 / 2", json!(3)),
        ("7.0 / 2", json!(3.5)),
        ("-7 / 2", json!(-3.5)),
        ("1 / 3", json!(0.3333333333333333)),
        ("2.0 / 3", json!(0.6666666666666666)),
        ("1 / 8.0", json!(0.125)),
        ("0 / 7", json!(0)),
        ("7 % 3", json!(1)),
        ("-7 % 3", json!(-1)),
        ("5.5 % 2", json!(1.5)),
        ("0.3 % 0.1", json!(0)),
        ("1.1 - 1", json!(0.1)),
        ("0.5 + 0.5", json!(1)),
        ("2.0 - 2", json!(0)),
        ("-0.0 * 1", json!(0)),
        ("1.005 * 1000", json!(1005)),
        ("4.35 * 100 + 1.1 * 3", json!(438.3)),
        ("uint(3) + 1", json!(4)),
        ("uint(3) - 4", json!(-1)),
        ("uint(3) * 0.5", json!(1.5)),
        ("1e15 + 0.5", json!(1_000_000_000_000_000.5)),
        ("1e-7 * 1e-7", json!(1e-14)),
        ("1e200 * 1e-200", json!(1)),
        ("1e300 + 1e-300 > 1e299", json!(true)),
    ]);
}

#[test]
fn whole_numbers_keep_their_64_bits() {
    all_are(&[
        ("details.int + 1", json!(9_223_372_036_854_775_808_u64)),
        (
            "details.int - details.low",
            json!(18_446_744_073_709_551_615_u64),
        ),
        ("details.high - 1", json!(u64::MAX - 1)),
        (
            "details.high - details.int",
            json!(9_223_372_036_854_775_808_u64),
        ),
        ("details.high / 5", json!(u64::MAX / 5)),
        ("details.high * 1.0", json!(u64::MAX)),
        ("details.high % 10", json!(5)),
        ("details.low / -1", json!(9_223_372_036_854_775_808_u64)),
        ("details.low % -1", json!(0)),
        ("9007199254740993 * 1.0", json!(9_007_199_254_740_993_u64)),
        ("details.high * 0.5 * 2 > 1e19", json!(true)),
        ("1e20 * 1", json!(1e20)),
        ("details.huge * 1", json!(f64::MAX)),
        ("details.tiny * 1", json!(5e-324)),
        ("details.tiny / 4", json!(0)),
    ]);
    all_fail(&[
        ("details.high + 1", "the result of `add` is too large"),
        ("details.high + 1.0", "the result of `add` is too large"),
        ("details.high * details.high", "the result of `mul` is too"),
        ("details.low - 1", "the result of `sub` is too large"),
        ("details.high * 10", "the result of `mul` is too large"),
        ("sum([details.high, 1])", "the result of `sum` is too large"),
        ("1 / 0", "a division by zero"),
        ("1.5 / details.zero", "a division by zero"),
        ("details.price % 0.0", "a division by zero"),
        ("details.huge * 10", "infinite or not a number"),
    ]);
}

#[test]
fn what_are_no_numbers_is_joined_or_refused_as_before() {
    all_are(&[
        ("'a' + 'b'", json!("ab")),
        ("[1] + [2.5]", json!([1, 2.5])),
        ("details.csv + ',' + order.id", json!("a,b,,c,A1")),
        ("[1, 2].map(n, n / 2)", json!([0.5, 1])),
        (
            "details.prices.filter(p, p * 10 >= 2)",
            json!([0.2, 19.99, 1]),
        ),
    ]);
    all_fail(&[
        ("details.csv + 1", "a text and a number have no `add`"),
        ("1 + details.csv", "a number and a text have no `add`"),
        ("details.csv - 1", "a text and a number have no `sub`"),
        ("details.gift * 2", "a mapping and a number have no `mul`"),
        ("1 / details.none", "a number and null have no `div`"),
        ("1.5 % details.csv", "a number and a text have no `rem`"),
        ("details.ids / 2", "a list and a number have no `div`"),
    ]);
}

#[test]
fn numbers_of_all_kinds_are_compared_by_their_values() {
    for source in [
        "2 == 2.0",
        "uint(2) == 2.0",
        "2.0 == uint(2)",
        "1 < 1.5",
        "uint(2) > 1.5",
        "2 in [2.0, 3]",
        "2.0 in [1, 2]",
        "[2, {'a': 1}] == [2.0, {'a': 1.0}]",
        "{2: 'a'}[2.0] == 'a'",
        "[1, 2, 3][4 / 2] == 3",
        "details.price * 100 == 1999",
        "details.tenth + details.fifth == 0.3",
        "1.5 != 1",
        "min(2, 2.5) == 2.0",
    ] {
        assert_eq!(computed(source), Ok(json!(true)), "{source}");
    }
}

/// For amounts in cents, what is computed with decimals is what whole numbers give.
#[test]
fn money_is_exact() {
    let expression = Expression::compile(
        "[details.a / 100 * details.n, details.a / 100 + details.b / 100, details.a / 100 - details.b / 100, \
         round(details.a / 100 * 1.19, 2), sum([details.a / 100, details.b / 100, details.n])]",
    )
    .unwrap();
    let in_cents = |cents: i64| match cents % 100 {
        0 => json!(cents / 100),
        _ => json!(format!("{cents}e-2").parse::<f64>().unwrap()),
    };
    let mut state: u64 = 7;
    for _ in 0..1_500 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let a = (state >> 20) as i64 % 1_000_000_000;
        let b = (state >> 11) as i64 % 100_000;
        let n = (state >> 50) as i64 % 1_000;
        let details = json!({"a": a, "b": b, "n": n});
        let scope = Scope::new(&json!({}), &details, [], None);
        let with_tax = (a * 119 + 50) / 100;
        let wanted = json!([
            in_cents(a * n),
            in_cents(a + b),
            in_cents(a - b),
            in_cents(with_tax),
            in_cents(a + b + n * 100)
        ]);
        let found = expression.evaluate(&scope).unwrap();
        assert_eq!(found.to_string(), wanted.to_string(), "{details}");
    }
}

/// For whole numbers that a floating-point number holds, a quotient is the nearest one, as the processor has it.
#[test]
fn a_quotient_without_an_end_is_the_nearest_number() {
    let expression = Expression::compile("details.a / details.b").unwrap();
    let mut state: u64 = 3;
    for _ in 0..3_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (a, b) = (state >> 11, 1 + (state >> 33) % 1_000_003);
        let scope = Scope::new(&json!({}), &json!({"a": a, "b": b}), [], None);
        let found = expression.evaluate(&scope).unwrap();
        assert_eq!(found.as_f64(), Some(a as f64 / b as f64), "{a} / {b}");
    }
}

#[test]
fn functions_of_numbers() {
    all_are(&[
        ("round(2.5, 0)", json!(3)),
        ("round(-2.5, 0)", json!(-3)),
        ("round(1.005, 2)", json!(1.01)),
        ("round(2.344, 2)", json!(2.34)),
        ("round(details.price, 1)", json!(20)),
        ("round(1999, 2)", json!(1999)),
        ("round(0.00049, 3)", json!(0)),
        ("round(1.5, 0.0)", json!(2)),
        ("round(details.huge, 20)", json!(f64::MAX)),
        ("round(details.tiny, 20)", json!(0)),
        ("floor(2.7)", json!(2)),
        ("floor(-2.1)", json!(-3)),
        ("floor(7 / 2)", json!(3)),
        ("ceil(2.1)", json!(3)),
        ("ceil(-2.9)", json!(-2)),
        ("ceil(2)", json!(2)),
        ("abs(-2.5)", json!(2.5)),
        ("abs(details.low)", json!(9_223_372_036_854_775_808_u64)),
        ("min(2, 1.5)", json!(1.5)),
        ("max(2.0, 1.5)", json!(2)),
        ("max(details.high, details.int)", json!(u64::MAX)),
        ("sum([])", json!(0)),
        ("sum(details.prices)", json!(21.29)),
        (
            "sum([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])",
            json!(1),
        ),
        ("sum([1e20, 1, -1e20])", json!(1)),
        ("sum(details.prices.map(p, p * 3))", json!(63.87)),
        ("fixed(19.9, 2)", json!("19.90")),
        ("fixed(1999, 2)", json!("1999.00")),
        ("fixed(2.345, 2)", json!("2.35")),
        ("fixed(-2.345, 2)", json!("-2.35")),
        ("fixed(-0.001, 2)", json!("0.00")),
        ("fixed(0, 2)", json!("0.00")),
        ("fixed(0.05, 1)", json!("0.1")),
        ("fixed(19.5, 0)", json!("20")),
        ("fixed(0, 0)", json!("0")),
        ("fixed(1e20, 1)", json!("100000000000000000000.0")),
        ("fixed(details.high, 0)", json!("18446744073709551615")),
        ("fixed(1e-7, 3)", json!("0.000")),
        ("fixed(0.1, 20)", json!("0.10000000000000000000")),
        ("size(fixed(details.huge, 20))", json!(330)),
    ]);
    all_fail(&[
        (
            "round(1.5, 21)",
            "`round` takes a whole number from 0 to 20",
        ),
        ("round(1.5, -1)", "takes a whole number from 0 to 20"),
        ("fixed(1.5, 0.5)", "takes a whole number from 0 to 20"),
        (
            "fixed(1.5, details.high)",
            "takes a whole number from 0 to 20",
        ),
        (
            "round(details.csv, 2)",
            "`round` takes numbers, and not a text",
        ),
        ("floor(details.none)", "`floor` takes numbers, and not null"),
        ("sum(details.ids)", "`sum` takes numbers, and not a text"),
        ("sum(details.csv)", "no matching overload"),
        (
            "floor(details.huge * 10)",
            "`floor` has a number that is infinite",
        ),
        ("sum([1, details.huge * 10])", "infinite or not a number"),
        ("max(details.gift, 1)", "and not a mapping"),
    ]);
}

#[test]
fn functions_of_texts() {
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    all_are(&[
        ("details.name.lower()", json!(" ünïcode straße ")),
        ("details.name.upper()", json!(" ÜNÏCODE STRASSE ")),
        ("details.name.trim()", json!("Ünïcode Straße")),
        ("details.csv.split(',')", json!(["a", "b", "", "c"])),
        ("''.split(',')", json!([""])),
        ("details.csv.split('--')", json!(["a,b,,c"])),
        ("details.csv.split(',').join('; ')", json!("a; b; ; c")),
        ("details.ids.join(', ')", json!("1, 2.5, x")),
        ("[2.0, 1e30].join('')", json!("21e+30")),
        ("details.empty.join(', ')", json!("")),
        ("['a'].join(',')", json!("a")),
        ("details.csv.replace(',', ' - ')", json!("a - b -  - c")),
        ("details.csv.replace('x', 'y')", json!("a,b,,c")),
        ("'ab'.replace('', '.')", json!(".a.b.")),
        ("details.name.substring(1, 4)", json!("Ünï")),
        ("details.csv.substring(4, 400)", json!(",c")),
        ("details.csv.substring(40, 400)", json!("")),
        ("details.csv.substring(3, 2)", json!("")),
        ("details.csv.substring(0, 2.0)", json!("a,")),
        ("base64('Ünï')", json!("w5xuw68=")),
        ("base64_decode('w5xuw68=')", json!("Ünï")),
        ("base64_decode('w5xuw68')", json!("Ünï")),
        (
            "base64_decode(base64(details.name)) == details.name",
            json!(true),
        ),
        (
            "url_encode('a b/c?d=é&~-_.')",
            json!("a%20b%2Fc%3Fd%3D%C3%A9%26~-_."),
        ),
        ("sha256('abc')", json!(abc)),
    ]);
    all_fail(&[
        ("details.csv.split('')", "a separator that is not empty"),
        ("[details.gift].join(',')", "`join` takes numbers"),
        ("[details.huge * 10].join(',')", "infinite or not a number"),
        (
            "details.csv.substring(-1, 2)",
            "`substring` takes a whole number from 0",
        ),
        ("details.csv.substring(0, 1.5)", "a whole number from 0"),
        ("base64_decode('?')", "a text that is not Base64"),
        ("base64_decode('/w==')", "no text in UTF-8"),
        ("details.count.lower()", "no matching overload"),
        ("sha256(details.count)", "no matching overload"),
        ("details.csv.join(',')", "no matching overload"),
    ]);
}

#[test]
fn times_are_of_the_order_and_not_of_a_clock() {
    let noon = "timestamp('2026-03-29T12:00:00+02:00')";
    let at = |rest: &str| format!("{noon}{rest}");
    for (rest, wanted) in [
        ("", json!("2026-03-29T10:00:00Z")),
        (" + duration('1h30m')", json!("2026-03-29T11:30:00Z")),
        (" - duration('0.5s')", json!("2026-03-29T09:59:59.5Z")),
        (" - timestamp('2026-03-29T09:00:00Z')", json!("3600s")),
        (" > timestamp(order.submitted_at)", json!(true)),
        (" == timestamp('2026-03-29T10:00:00Z')", json!(true)),
        (".getHours()", json!(12)),
        (".getHours('Europe/Paris')", json!(12)),
        (".getDate('Pacific/Kiritimati')", json!(30)),
        (
            ".format('%d.%m.%Y %H:%M %z', 'Europe/Paris')",
            json!("29.03.2026 12:00 +0200"),
        ),
        (".format('', 'UTC')", json!("")),
    ] {
        all_are(&[(&at(rest), wanted)]);
    }
    all_are(&[
        ("order.submitted_at", json!("2026-01-02T03:00:45.678Z")),
        (
            "{'until': timestamp(order.submitted_at) + duration('24h'), 'of': [duration('90s')]}",
            json!({"until": "2026-01-03T03:00:45.678Z", "of": ["90s"]}),
        ),
        // Summer time begins.
        (
            "[0, 1].map(n, (timestamp('2026-03-29T00:59:00Z') + duration(string(n) + 'm')).format('%H:%M', 'Europe/Paris'))",
            json!(["01:59", "03:00"]),
        ),
    ]);
    for (rest, wanted) in [
        (".format('%Y', 'Mars')", "no such time zone"),
        (".format('%Q', 'UTC')", "no such form"),
        (".format('%#z', 'UTC')", "no such form"),
        (".format('%', 'UTC')", "no such form"),
        (
            ".format(details.text + details.text + details.text + details.text + details.text, 'UTC')",
            "units of work",
        ),
        (" + 1", "a time and a number have no `add`"),
    ] {
        all_fail(&[(&at(rest), wanted)]);
    }
    all_fail(&[
        (
            "timestamp('9999-12-31T00:00:00Z') + duration('48h')",
            "the result of `add` is too large",
        ),
        ("timestamp(details.csv)", "`timestamp` does not accept"),
        ("duration(details.csv)", "`duration` does not accept"),
        (
            "duration('1h') * 2",
            "a duration and a number have no `mul`",
        ),
    ]);
    for (moment, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (u64::MAX, "9999-12-31T23:59:59.999Z"),
    ] {
        let order = Scope::order("", "", true, moment);
        assert_eq!(order["submitted_at"], json!(text));
    }
}

#[test]
fn coalesce_is_the_first_that_is_there() {
    all_are(&[
        ("coalesce(details.price, 1)", json!(19.99)),
        ("coalesce(details.none, 1)", json!(1)),
        ("coalesce(details.missing, 'x')", json!("x")),
        ("coalesce(details.missing.too.deep, 'x')", json!("x")),
        ("coalesce(details.gift.note, 'x')", json!("x")),
        ("coalesce(details.gift.note.text, 'x')", json!("x")),
        ("coalesce(details['gift']['lines'][0].sku, 'x')", json!("s")),
        ("coalesce(details.gift.lines[5].sku, 'x')", json!("x")),
        ("coalesce(steps.gift.price, 0)", json!(0)),
        ("coalesce(steps['first'].ok, 0)", json!(true)),
        ("coalesce(details.a, details.b)", json!(null)),
        (
            "coalesce(details.a, coalesce(details.b, details.count)) + 1",
            json!(4),
        ),
        (
            "coalesce(coalesce(details.a, details.b), details.count + 0.5)",
            json!(3.5),
        ),
        ("coalesce(details.price, 1 / details.zero)", json!(19.99)),
        (
            "coalesce(details.price, details.missing + 'x')",
            json!(19.99),
        ),
        ("coalesce(false, true)", json!(false)),
        ("coalesce('', 'x')", json!("")),
        (
            "[1, 2].map(n, coalesce(details.gift.lines[n - 1].sku, n))",
            json!(["s", 2]),
        ),
        ("coalesce([1, 2].map(n, n)[1], 0)", json!(2)),
    ]);
    all_fail(&[
        ("coalesce(details.missing + 1, 2)", "no such key: missing"),
        ("coalesce(details.price.cents, 2)", "no matching overload"),
        ("coalesce(details.missing, 1 / details.zero)", "division"),
    ]);
}

#[test]
fn no_function_makes_more_than_its_work_allows() {
    let bound = MAX_WORK.to_string();
    let grown = "details.text.replace('x', details.text)";
    for source in [
        grown,
        "details.text.replace('', details.text)",
        "details.text.split('x').join(details.text)",
        "details.text.split('x').map(t, t).join(details.text).size()",
        "[details.text, details.text].join(details.text.replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'))",
        "details.text.split('x').map(t, details.text.lower()).size()",
        "details.text.split('x').map(t, sha256(details.text)).size()",
        "details.text.split('x').exists(t, sum(details.text.split('x').map(u, 1)) < 0)",
        "details.text.split('x').all(t, details.text.substring(0, 1) == 'x')",
        "details.text.split('x').map(t, coalesce(details.text, t)).size()",
    ] {
        let reason = computed(source).expect_err(source);
        assert!(reason.contains(&bound), "{source}: {reason}");
    }
    // As often as the nesting allows.
    let mut nested = "'xxxxxxxx'".to_owned();
    for _ in 0..10 {
        nested = format!("{nested}.replace('x', 'xxxxxxxxxxxxxxxx')");
    }
    let reason = computed(&nested).expect_err(&nested);
    assert!(reason.contains(&bound), "{reason}");
}

#[test]
fn work_within_the_bound_is_done() {
    all_are(&[
        ("details.text.replace('x', 'yy').size()", json!(200_000)),
        ("details.text.split('x').size()", json!(100_001)),
        ("size(base64(details.text.upper()))", json!(133_336)),
        ("size(url_encode(details.text))", json!(100_000)),
        (
            "sum(details.text.substring(0, 20000).split('x').map(t, 1))",
            json!(20_001),
        ),
    ]);
}

/// The page's table has an expression and its value in each row.
#[test]
fn the_examples_of_the_page_are_right() {
    let page = include_str!("../../../../../docs/reference/workflow-file.md");
    let tables = page.split("| expression | value | |").skip(1);
    let rows = tables.flat_map(|table| {
        let rows = table.lines().skip(2);
        rows.take_while(|line| line.starts_with("| "))
    });
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('`').collect();
        let wanted: Value = serde_json::from_str(cells[3]).expect(row);
        let found = computed(cells[1]).unwrap_or_else(|reason| panic!("{row}: {reason}"));
        assert_eq!(found.to_string(), wanted.to_string(), "{row}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}
