package report

// Totals sums the counts of a target's agents.
type Totals struct {
	Ready     int    `json:"-"`        // agents that the system knew and made work, ever
	Connected int    `json:"-"`        // now
	Requests  uint64 `json:"requests"` // to make a result
	Dropped   uint64 `json:"dropped"`  // of them, not followed, because the protocol says so or the run had ended
	Missed    uint64 `json:"missed"`   // that should have come between two that came, or since the last one or none, and did not
	Sent      uint64 `json:"sent"`     // results given to connections …
	Written   uint64 `json:"written"`  // … and taken whole
	Alive     uint64 `json:"alive"`    // keepalives, which are no results
	Lost      uint64 `json:"lost"`     // connections that ended by themselves
	Failed    uint64 `json:"failed"`   // connections that were not opened: they are tried again
}

// Targeted holds what a report tells about a system other than Muster.
type Targeted struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Totals
}

// Asked reports whether the system asks its agents for results: then rates and latencies count sent results, from the
// time of the request.
func (rep *Report) Asked() bool { return rep.Targeted != nil }
