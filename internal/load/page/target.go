package page

import (
	"github.com/muster-fleet/muster/internal/load/report"
)

// A system that asks acknowledges nothing: what its rows and curves show is that
// results left, from when they were asked for.

// done is what became of results that are counted as a rate.
func done(rep *report.Report) string {
	if rep.Asked() {
		return "left"
	}
	return "acknowledged"
}

// timed is from when to when latency is.
func timed(rep *report.Report) string {
	if rep.Asked() {
		return "from the issue of a request, in whole seconds, until its result had left"
	}
	return "from the intended time to the acknowledgement"
}
