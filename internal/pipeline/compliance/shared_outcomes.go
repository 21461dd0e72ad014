package compliance

import (
	"bytes"
	"hash/crc32"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// outcomeCache finds an outcome in memory that equals the outcome of a new run. It forgets an outcome when another one
// takes its place, so that it needs no count of users; a forgotten outcome is then in memory more than once. Any
// goroutine may call its methods.
type outcomeCache [1 << 16]atomic.Pointer[Outcome]

// share returns the outcome of a report, and reuses an equal outcome in memory that has no messages. The report's own memory
// is free afterwards.
func (x *outcomeCache) share(c *model.DirectiveDefinition, r *wire.Report) *Outcome {
	o := Outcome{Definition: c.ID, Enforced: r.Enforced, Components: len(c.Components), Codes: r.Codes}
	if len(r.Exceptions) > 0 || r.Ended != "" {
		o.Codes = bytes.Clone(o.Codes)
		o.SetTexts(cloneExceptions(r.Exceptions), strings.Clone(r.Ended))
		return &o
	}
	return x.find(&o)
}

// find returns an outcome in memory that equals a given outcome without messages. It makes a copy if there is none.
func (x *outcomeCache) find(o *Outcome) *Outcome {
	at := &x[crc32.Update(uint32(o.Definition), crc32.MakeTable(crc32.Castagnoli), o.Codes)%uint32(len(x))]
	if is := at.Load(); is != nil && is.Definition == o.Definition && is.Enforced == o.Enforced && is.Components == o.Components && bytes.Equal(is.Codes, o.Codes) {
		return is
	}
	is := *o
	is.Codes = bytes.Clone(o.Codes)
	at.Store(&is)
	return &is
}

// cloneExceptions returns deep copies of a report's messages about components, because a later report reuses
// the report's memory.
func cloneExceptions(list []wire.ReportException) []wire.ReportException {
	out := slices.Clone(list)
	for i := range out {
		out[i].Message = strings.Clone(out[i].Message)
	}
	return out
}
