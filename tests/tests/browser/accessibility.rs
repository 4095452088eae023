//! Accessibility of the pages: use by keyboard only, the reader's time zone, narrow screens, and both colour schemes.

use serde_json::json;
use triad_tests::browser::Browser;
use triad_tests::orders::{lines, orders};
use triad_tests::poll::until;

use super::{FAILED, figure, world};

/// Every text whose contrast to its background is below WCAG 2.2 (1.4.3): 4.5 to 1, and 3 to 1 for large text.
const FAINT: &str = r#"(() => {
  const pixel = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = colour => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = colour;
    pixel.fillRect(0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const part = c => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  // The background of a drawn text is the last box drawn under it.
  const under = drawn => {
    const at = drawn.getBoundingClientRect();
    const [x, y] = [at.x + at.width / 2, at.y + at.height / 2];
    const boxes = [...drawn.ownerSVGElement.querySelectorAll('rect')].filter(rect => {
      const box = rect.getBoundingClientRect();
      return box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
    });
    return boxes.length ? rgba(getComputedStyle(boxes.pop()).fill) : behind(drawn);
  };
  const faint = [];
  for (const e of document.querySelectorAll('body *:not(svg *), svg text')) {
    const has_text = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!has_text || !e.checkVisibility() || e.disabled) continue;
    const style = getComputedStyle(e);
    const is_drawn = e.ownerSVGElement != null;
    const [front, back] = is_drawn ? [style.fill, under(e)] : [style.color, behind(e)];
    const [a, b] = [light(rgba(front)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const is_large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (is_large ? 3 : 4.5)) faint.push(`${e.tagName} ${e.className}: ${ratio.toFixed(2)} ${e.textContent.trim().slice(0, 30)}`);
  }
  return faint;
})()"#;

#[tokio::test]
async fn a_cause_is_tried_by_keys_alone() {
    let Some(mut browser) = Browser::start().await else {
        return;
    };
    let dev = world().await;
    browser.go(&dev.console).await;
    browser.tab_to("[aria-label='Causes'] tbody a").await;
    // A new order refreshes the page; the link must keep the focus.
    let text = lines(&orders("late", 1));
    let submitted = dev.triad_reading(&["submit", "-"], text.as_bytes());
    let _ = submitted.await.good();
    let failed = FAILED + 1;
    until("the page shows one more", async || {
        (figure(&mut browser, "Error").await == failed.to_string()).then_some(())
    })
    .await;
    browser.enter().await;
    browser.tab_to("input[data-all=orders]").await;
    browser.press("Space").await;
    browser.tab_to("input[name=by]").await;
    browser.type_text("ann").await;
    browser.tab_to("input[name=why]").await;
    browser.type_text("mail is back").await;
    browser.tab_to("button[value=try]").await;
    browser.enter().await;
    assert_eq!(browser.text("h1").await, "Dry run: resubmit");
    let tried = format!("{failed} would be done, 0 refused, 0 failed");
    assert_eq!(browser.text("#tally").await, tried);
    assert_eq!(browser.clicks(), 0);
}

#[tokio::test]
async fn pages_can_be_read_narrow_and_wide_light_and_dark_in_the_readers_zone() {
    let Some(mut browser) = Browser::start().await else {
        return;
    };
    let dev = world().await;
    for (width, scheme) in [
        (400, "light"),
        (400, "dark"),
        (1280, "light"),
        (1280, "dark"),
    ] {
        browser.look(width, scheme).await;
        for path in [
            "",
            "causes",
            "orders?state=Error",
            "orders/bad-0",
            "orders/good-0",
            "workflows",
            "workflows/order-fulfilment/present",
            "downstreams",
            "dead-letters",
            "campaigns",
        ] {
            browser.go(&format!("{}{path}", dev.console)).await;
            let fits =
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
            assert_eq!(browser.value(fits).await, true, "{path} in {width}");
            assert_eq!(browser.value(FAINT).await, json!([]), "{path} in {scheme}");
        }
    }
    browser.go(&format!("{}orders/good-0", dev.console)).await;
    // The browser's time zone is set to Berlin.
    let in_berlin = "[...document.querySelectorAll(\"[aria-label='Timeline'] time\")].every(t => \
        t.innerText.includes(new Date(t.title).toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin' })))";
    assert_eq!(browser.value(in_berlin).await, true);
}
