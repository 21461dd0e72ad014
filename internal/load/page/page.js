// Values under the pointer: every chart over time shows the same moment. All values are
// read from the tables under the charts; without this script those show them.
"use strict";
(() => {
  const charts = [...document.querySelectorAll(".chart")].map(figure => {
    const svg = figure.querySelector(".plot > svg");
    const rows = [...figure.querySelectorAll(".data tbody tr")].map(row => ({ at: +row.dataset.at, cells: row.children }));
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("y2", "100%");
    cursor.style.display = "none";
    svg.append(cursor);
    const keys = [...figure.querySelectorAll(".keys li")].map(key => {
      let value = key.querySelector("b");
      if (!value) key.append(" ", value = document.createElement("b"));
      return { value, usual: value.textContent };
    });
    const unit = figure.querySelector("h3 small") || figure.querySelector("h3").appendChild(document.createElement("small"));
    return { figure, svg, rows, cursor, keys, unit, usual: unit.textContent };
  }).filter(chart => chart.rows.length > 1);

  const show = (chart, at) => {
    const row = chart.rows.reduce((best, r) => Math.abs(r.at - at) < Math.abs(best.at - at) ? r : best);
    chart.cursor.setAttribute("x1", row.at + "%");
    chart.cursor.setAttribute("x2", row.at + "%");
    chart.cursor.style.display = "";
    chart.keys.forEach((key, i) => { key.value.textContent = row.cells[i + 1].textContent || "–"; });
    chart.figure.classList.add("pointed");
    chart.unit.textContent = "at " + row.cells[0].textContent;
  };
  const rest = chart => {
    chart.cursor.style.display = "none";
    chart.keys.forEach(key => { key.value.textContent = key.usual; });
    chart.figure.classList.remove("pointed");
    chart.unit.textContent = chart.usual;
  };
  for (const chart of charts) {
    const together = "time" in chart.figure.dataset ? charts.filter(c => "time" in c.figure.dataset) : [chart];
    chart.svg.addEventListener("pointermove", event => {
      const box = chart.svg.getBoundingClientRect();
      const at = 100 * (event.clientX - box.left) / box.width;
      together.forEach(c => show(c, at));
    });
    chart.svg.addEventListener("pointerleave", () => together.forEach(rest));
  }
})();
