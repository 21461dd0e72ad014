// Package reports sums history up: messages that shadow namespaces would have sent, and noise
// (what paged people, which checks never fail, which silences are stale).
//
// A report reads many rows; Turns bound the number of reports at a time.
//
// Start reading at Register.
package reports

import (
	"time"

	"github.com/muster-fleet/muster/internal/api/op"
)

// Options are the surroundings of reports.
type Options struct {
	Retention time.Duration // of history; 0: unknown
}

// request is one request for a report.
type request struct {
	op.Request
	Options
	reports *op.Turns
}

type subject = op.Subject[*request]

// Register adds the operations of this subject.
func Register(r *op.Routes, o Options) {
	reports := op.NewTurns("reports", r.Queues)
	registerReports(op.For(r, func(q op.Request) *request { return &request{q, o, reports} }))
}
