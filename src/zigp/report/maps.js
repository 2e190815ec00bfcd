"use strict";
// Draw the maps of the chosen time over the pictures on the page; show the value under the pointer.
const data = JSON.parse(document.getElementById("map-data").textContent);
const unpack = (text, Kind) => new Kind(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
const place = unpack(data.place, Uint32Array);
const missing = 65535;
const short = (value, digits) => String(Number(value.toPrecision(digits)));

// The two sides of each column or row of cells, halfway to its neighbours.
function sides(places) {
  const at = [...new Set(places)].sort((a, b) => a - b), found = new Map();
  at.forEach((here, i) => {
    const before = i > 0 ? (at[i - 1] + here) / 2 : here - (at[1] - here) / 2;
    const after = i + 1 < at.length ? (at[i + 1] + here) / 2 : here + (here - at[i - 1]) / 2;
    found.set(here, [before, after]);
  });
  return found;
}
const columns = sides(data.east), rows = sides(data.north);

function layer(map) {
  const holder = document.getElementById("map-" + map.name), tip = holder.querySelector(".tip");
  const canvas = holder.appendChild(document.createElement("canvas"));
  const packed = data.values[map.name], cells = unpack(packed.cells, Uint16Array);
  ["left", "top", "width", "height"].forEach((side, i) => { canvas.style[side] = 100 * map.box[i] + "%"; });

  function colour(value) {
    if (map.tol !== null && Math.abs(value) <= map.tol) return null;
    const share = (value - map.low) / (map.high - map.low);
    return map.colours[Math.min(Math.max(Math.floor(256 * share), 0), 255)];
  }

  function draw(at) {
    const { width, height } = canvas.getBoundingClientRect(), dense = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    const pen = canvas.getContext("2d");
    pen.scale(dense, dense);
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, width, height);
    pen.lineWidth = 0.5;
    pen.strokeStyle = "#4d4d4d";
    const x = east => width * (east - map.x[0]) / (map.x[1] - map.x[0]);
    const y = north => height * (map.y[1] - north) / (map.y[1] - map.y[0]);
    canvas.marks = [];
    for (let i = data.starts[at]; i < data.starts[at + 1]; i++) {
      const value = cells[i] === missing ? null : packed.low + packed.step * cells[i];
      const east = data.east[place[i]], north = data.north[place[i]];
      canvas.marks.push({ x: x(east), y: y(north), east, north, value, colour: value === null ? null : colour(value) });
    }
    canvas.marks.sort((a, b) => Math.abs(a.value) - Math.abs(b.value)); // the largest on top
    for (const mark of canvas.marks) {
      if (mark.value === null) continue;
      pen.fillStyle = mark.colour || map.zero;
      if (map.cells) {
        const [left, right] = columns.get(mark.east).map(x), [low, high] = rows.get(mark.north).map(y);
        // Cells overlap by half a pixel, so that no seams show.
        pen.fillRect(left, high, right - left + 0.5, low - high + 0.5);
        continue;
      }
      pen.beginPath();
      pen.arc(mark.x, mark.y, holder.clientWidth * map.dot / 2 * (mark.colour ? 1 : 0.63), 0, 7);
      pen.fill();
      if (mark.colour) pen.stroke();
    }
    tip.hidden = true;
  }

  function point(event) {
    const box = canvas.getBoundingClientRect(), [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const far = mark => Math.hypot(mark.x - px, mark.y - py);
    const near = canvas.marks.reduce((a, b) => (far(b) < far(a) ? b : a));
    tip.hidden = far(near) > 25;
    const value = near.value === null ? "missing" : short(near.value, 3) + (map.unit ? " " + map.unit : "");
    tip.textContent = `${data.axes[0]} ${short(near.east, 6)}, ${data.axes[1]} ${short(near.north, 6)}: ${value}`;
    tip.style.left = canvas.offsetLeft + near.x + "px";
    tip.style.top = canvas.offsetTop + near.y + "px";
  }
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  return draw;
}

const layers = data.layers.map(layer);
const slider = document.getElementById("when"), play = document.getElementById("play");
const now = () => (slider ? Number(slider.value) : 0);
function show() {
  for (const draw of layers) draw(now());
  if (slider) document.getElementById("label").textContent = data.labels[now()];
}
if (slider) {
  let timer = null;
  slider.hidden = play.hidden = false;
  slider.addEventListener("input", show);
  play.addEventListener("click", () => {
    clearInterval(timer);
    timer = timer ? null : setInterval(() => {
      slider.value = (now() + 1) % data.labels.length;
      show();
    }, 350);
    play.textContent = timer ? "❚❚" : "▶";
    play.setAttribute("aria-label", timer ? "pause" : "play");
  });
}
window.addEventListener("resize", show);
show();
