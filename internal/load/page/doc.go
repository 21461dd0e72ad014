// Package page writes a run's report (report.Report, run.json) as one HTML file that needs
// nothing else: no other host, no font, no picture; its few lines of script only show
// values under the pointer. What it says in charts it says in tables too.
//
// Start reading at page.go: Write turns the report into a view of finished words, numbers and
// drawings, section by section (verdict.go, tiles.go, series.go, …), and page.html sets
// those. A figure that a report does not have, because its run did not measure it or is
// older than the figure, leaves its place out.
package page
