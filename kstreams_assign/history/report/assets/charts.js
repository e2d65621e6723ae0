"use strict";
// The plots that plotly draws: histograms and the skew over time. No text from the data is given to plotly.

const Charts = (() => {
  const { colour, causeWords, duration, element } = Words;
  const OUTCOMES = {
    "handed over": "instance-2",
    "kept as standby": "instance-4",
    "given up": "instance-5",
    "under way": "instance-11",
  };
  const LIMITS = [0, 1, 5, 15, 30, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 14400, 28800, 86400, Infinity].map(
    (seconds) => seconds * 1000,
  );
  const LINES = {
    active: ["instance-0", "solid"],
    standby: ["instance-5", "dash"],
    all: ["quiet", "dot"],
    subtopology: ["instance-2", "dashdot"],
    rack: ["instance-3", "longdash"],
  };

  const iso = (ms) => new Date(ms).toISOString().replace("Z", "");

  function layout(extra) {
    const axis = {
      gridcolor: colour("faint"),
      linecolor: colour("line"),
      zerolinecolor: colour("line"),
      tickcolor: colour("line"),
    };
    return {
      margin: { l: 56, r: 12, t: 8, b: 40, autoexpand: false },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("quiet") },
      hoverlabel: { bgcolor: colour("paper"), bordercolor: colour("line"), font: { color: colour("ink") } },
      showlegend: false,
      bargap: 0.12,
      dragmode: "zoom",
      ...extra,
      xaxis: { ...axis, ...extra.xaxis },
      yaxis: { ...axis, rangemode: "tozero", ...extra.yaxis },
    };
  }

  const config = { displaylogo: false, responsive: true, displayModeBar: false };

  const whole = (most) => ({ dtick: most <= 6 ? 1 : undefined });

  // A legend of our own wraps where it has to; its buttons take a kind out of the plot and back.
  function legend(host, traces) {
    const box =
      host.previousElementSibling && host.previousElementSibling.matches(".kinds")
        ? host.previousElementSibling
        : element("div", { class: "kinds" });
    box.replaceChildren(
      ...traces.map((trace, index) => {
        const line = trace.line,
          swatch = element("span", { class: "swatch" });
        if (line) swatch.classList.add("line");
        swatch.style[line ? "borderTopColor" : "background"] = line ? line.color : trace.marker.color;
        if (line) swatch.style.borderTopStyle = { solid: "solid", dot: "dotted" }[line.dash] || "dashed";
        const button = element(
          "button",
          {
            type: "button",
            onclick: () => {
              const shown = button.getAttribute("aria-pressed") === "true";
              button.setAttribute("aria-pressed", !shown);
              Plotly.restyle(host, { visible: !shown }, [index]);
            },
          },
          swatch,
          trace.name,
        );
        button.setAttribute("aria-pressed", "true");
        return button;
      }),
    );
    host.before(box);
  }

  function draw(host, traces, extra) {
    if (!host.data) host.replaceChildren();
    legend(host, traces);
    return Plotly.react(
      host,
      traces.map((trace) => ({ visible: true, ...trace })),
      layout(extra),
      config,
    );
  }

  function empty(host, text) {
    if (host.data) Plotly.purge(host);
    legend(host, []);
    host.replaceChildren(element("p", { class: "quiet", textContent: text }));
  }

  function causes(host, buckets) {
    const totals = new Array(buckets.length).fill(0);
    const traces = Object.entries(buckets.counts).map(([cause, pairs]) => {
      const x = [],
        y = [];
      for (let at = 0; at < pairs.length; at += 2) {
        x.push(iso(buckets.start + (pairs[at] + 0.5) * buckets.width));
        y.push(pairs[at + 1]);
        totals[pairs[at]] += pairs[at + 1];
      }
      return {
        type: "bar",
        name: causeWords[cause],
        x,
        y,
        width: buckets.width * 0.9,
        marker: { color: colour(`cause-${cause}`) },
        hovertemplate: "%{y}",
      };
    });
    if (!traces.length) return empty(host, "No rebalance.");
    const length = Math.max(buckets.length, 12);
    return draw(host, traces, {
      barmode: "stack",
      hovermode: "x unified",
      xaxis: {
        type: "date",
        range: [iso(buckets.start), iso(buckets.start + length * buckets.width)],
        hoverformat: "%Y-%m-%d %H:%M",
      },
      yaxis: {
        title: {
          text: `a${buckets.unit === "hour" ? "n hour" : ` ${buckets.unit}`}`
            .replace("a 5 minutes", "in 5 minutes")
            .replace("a 6 hours", "in 6 hours"),
        },
        ...whole(Math.max(...totals)),
      },
    });
  }

  function skew(host, group) {
    const names = Object.keys(group.skews);
    if (!names.length) return empty(host, "The tables hold no data for this.");
    const { drawn } = group;
    let most = 0;
    const traces = names.map((scope) => {
      const pairs = group.skews[scope],
        x = [],
        y = [];
      for (let at = 0; at < pairs.length; at += 2) {
        x.push(group.equal ? pairs[at] + 1 : iso(drawn[pairs[at]]));
        y.push(pairs[at + 1]);
        most = Math.max(most, pairs[at + 1]);
      }
      x.push(group.equal ? drawn.length + 1 : iso(group.until));
      y.push(y[y.length - 1]);
      const [paint, dash] = LINES[scope];
      return {
        type: "scatter",
        mode: "lines",
        name: scope,
        x,
        y,
        line: { shape: "hv", width: 2, color: colour(paint), dash },
        hovertemplate: "%{y}",
      };
    });
    return draw(host, traces, {
      hovermode: "x unified",
      xaxis: group.equal ? { title: { text: "generation, counted from the first shown" } } : { type: "date" },
      yaxis: { title: { text: "tasks a thread" }, ...whole(most) },
    });
  }

  // Durations in classes that grow: a warm-up takes seconds or days.
  function classed(values) {
    const counts = new Array(LIMITS.length - 1).fill(0);
    for (const value of values) counts[LIMITS.findIndex((limit, at) => value >= limit && value < LIMITS[at + 1])] += 1;
    return counts;
  }

  const limit = (at) => (LIMITS[at] === Infinity ? "more" : at === 0 ? "0" : duration(LIMITS[at]));

  function durations(host, parts, label) {
    const counted = parts.map(([name, paint, values]) => [name, paint, classed(values)]);
    const sums = counted[0][2].map((_, at) => counted.reduce((sum, part) => sum + part[2][at], 0));
    const used = sums.map((sum, at) => (sum ? at : -1)).filter((at) => at >= 0);
    const from = Math.max(0, used[0] - 1),
      to = Math.min(sums.length - 1, used[used.length - 1] + 1);
    const classes = sums.map((_, at) => at).slice(from, to + 1);
    const edges = [...classes, to + 1],
      every = edges.length > 9 ? 2 : 1;
    const shown = edges.filter((_, index) => index % every === 0);
    const traces = counted.map(([name, paint, counts]) => ({
      type: "bar",
      name,
      x: classes.map((at) => at + 0.5),
      y: classes.map((at) => counts[at]),
      marker: { color: colour(paint) },
      customdata: classes.map((at) => `${limit(at)} to ${limit(at + 1)}`),
      hovertemplate: "%{customdata}: %{y}",
    }));
    return draw(host, traces, {
      barmode: "stack",
      hovermode: "closest",
      bargap: 0.06,
      xaxis: { tickvals: shown, ticktext: shown.map(limit), tickangle: 0, range: [from, to + 1], zeroline: false },
      yaxis: { title: { text: label }, ...whole(Math.max(...sums)) },
    });
  }

  function warmups(host, group) {
    if (group.warmups.length) {
      const parts = Object.entries(OUTCOMES).map(([outcome, paint]) => [
        outcome,
        paint,
        group.warmups.filter((warmup) => warmup[4] === outcome).map((warmup) => warmup[3]),
      ]);
      return durations(
        host,
        parts.filter((part) => part[2].length),
        "warm-ups",
      );
    }
    if (group.held.length)
      return durations(host, [["copies held before hand-over", "instance-2", group.held]], "hand-overs");
    return empty(
      host,
      group.warmups_known ? "No copy was warmed up in this time." : "A warm-up looks like a standby here.",
    );
  }

  return { causes, skew, warmups };
})();
