"use strict";
const found = JSON.parse(document.getElementById("found").textContent);
const config = { responsive: true, displayModeBar: window.innerWidth < 600 ? false : "hover", displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
const common = {
  margin: { l: 56, r: 16, t: 10, b: 46 },
  font: { family: "system-ui, sans-serif", size: 12, color: "#1d2733" },
  legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
};

for (const place of document.querySelectorAll("[data-chart]")) {
  const chart = found[place.dataset.chart];
  const layout = Object.assign({}, common, chart.layout);
  for (const axis of ["xaxis", "yaxis", "yaxis2"]) {
    if (layout[axis]) layout[axis] = Object.assign({ automargin: true, zeroline: false }, layout[axis]);
  }
  if (layout.showlegend) layout.margin = Object.assign({}, common.margin, { t: 34 });
  Plotly.newPlot(place, chart.data, layout, config);
}

function unpack(text, Kind) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
}

function startMaps(maps) {
  const place = unpack(maps.place, Uint32Array), zero = unpack(maps.zero, Uint8Array);
  const values = {};
  for (const [name, one] of Object.entries(maps.values)) {
    values[name] = { low: one.low, step: one.step, cells: unpack(one.cells, Uint16Array) };
  }
  const value = (name, i) => {
    const one = values[name], cell = one.cells[i];
    return cell === 65535 ? null : one.low + one.step * cell;
  };
  const grid = asGrid(maps);

  function drawn(shown, at) {
    const [start, end] = [maps.starts[at], maps.starts[at + 1]];
    const colour = { colorscale: shown.scale, cmin: shown.low, cmax: shown.high };
    if (grid) {
      const empty = () => grid.north.map(() => grid.east.map(() => null));
      const z = empty(), grey = empty();
      for (let i = start; i < end; i++) {
        const [row, column] = grid.cell[place[i]];
        if (shown.dry && zero[i]) grey[row][column] = 0;
        else z[row][column] = value(shown.key, i);
      }
      const dry = { type: "heatmap", x: grid.east, y: grid.north, z: grey, showscale: false, hoverinfo: "skip",
        colorscale: [[0, "#d4d8dd"], [1, "#d4d8dd"]] };
      return [dry, { type: "heatmap", x: grid.east, y: grid.north, z, colorscale: shown.scale, zmin: shown.low,
        zmax: shown.high, colorbar: bar(shown), hovertemplate: "%{x}, %{y}: %{z:.3g}<extra></extra>" }];
    }
    const dry = { x: [], y: [] }, wet = { x: [], y: [], c: [] };
    for (let i = start; i < end; i++) {
      const v = value(shown.key, i), x = maps.east[place[i]], y = maps.north[place[i]];
      if (shown.dry && zero[i]) { dry.x.push(x); dry.y.push(y); }
      else { wet.x.push(x); wet.y.push(y); wet.c.push(v); }
    }
    const size = maps.east.length > 400 ? 6 : 11;
    return [
      { x: dry.x, y: dry.y, mode: "markers", marker: { color: "#b8bec6", size: 4 }, hoverinfo: "skip" },
      { x: wet.x, y: wet.y, mode: "markers", text: wet.c.map(v => v === null ? "" : v.toPrecision(3)),
        hovertemplate: "%{x}, %{y}: %{text}<extra></extra>",
        marker: Object.assign({ color: wet.c, size, colorbar: bar(shown), line: { color: "#667", width: 0.5 } }, colour) },
    ];
  }

  const bar = shown => ({ thickness: 10, len: 0.9, title: { text: shown.unit, side: "right" }, tickfont: { size: 10 } });
  const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const pad = (v, r) => {
    const lo = v.reduce((a, b) => Math.min(a, b)), hi = v.reduce((a, b) => Math.max(a, b)), d = (hi - lo || 1) * r;
    return [lo - d, hi + d];
  };
  const layout = Object.assign({}, common, {
    margin: { l: 50, r: 8, t: 6, b: 42 },
    showlegend: false,
    xaxis: { title: { text: escaped(maps.axes[0]) }, zeroline: false, automargin: true, constrain: "domain", range: pad(maps.east, 0.04) },
    yaxis: Object.assign({ title: { text: escaped(maps.axes[1]) }, zeroline: false, automargin: true, constrain: "domain", range: pad(maps.north, 0.04) },
      maps.same_unit ? { scaleanchor: "x", scaleratio: maps.stretch } : {}),
  });

  function show(at) {
    for (const shown of maps.shown) {
      Plotly.react("map-" + shown.key, drawn(shown, at), structuredClone(layout), config);
    }
    const label = document.getElementById("label");
    if (label) label.textContent = maps.labels[at];
  }

  const slider = document.getElementById("when");
  let first = 0;
  if (slider) {  // begin where there is most to see
    let most = -1;
    for (let at = 0; at < maps.labels.length; at++) {
      let count = 0;
      for (let i = maps.starts[at]; i < maps.starts[at + 1]; i++) if (!zero[i]) count++;
      if (count > most) { most = count; first = at; }
    }
    slider.value = first;
    slider.addEventListener("input", () => show(Number(slider.value)));
    let timer = null;
    const play = document.getElementById("play");
    play.addEventListener("click", () => {
      if (timer) { clearInterval(timer); timer = null; play.textContent = "▶"; return; }
      play.textContent = "❚❚";
      timer = setInterval(() => {
        slider.value = (Number(slider.value) + 1) % maps.labels.length;
        show(Number(slider.value));
      }, 350);
    });
  }
  show(first);
}

function asGrid(maps) {
  // Many places that fill rows and columns are drawn as cells.
  const distinct = values => [...new Set(values)].sort((a, b) => a - b);
  const east = distinct(maps.east), north = distinct(maps.north), count = maps.east.length;
  if (east.length < 6 || north.length < 6 || count < 0.6 * east.length * north.length) return null;
  const column = new Map(east.map((v, i) => [v, i])), row = new Map(north.map((v, i) => [v, i]));
  return { east, north, cell: maps.east.map((x, i) => [row.get(maps.north[i]), column.get(x)]) };
}

if (found.maps) startMaps(found.maps);
