package report

// Beside is one of them, as it went in one phase.
type Beside struct {
	Figure string  `json:"figure"`          // list-p99, apply-p99, silence-p99, run-p99, fact-p99, watch-p99, holds-p99, tell-p99, history-behind, beyond-p99, or held
	Class  string  `json:"class,omitempty"` // of held; empty: of all results
	Count  uint64  `json:"count"`           // answers, arrivals, seconds looked at, results
	Value  float64 `json:"value"`           // in the figure's unit
}

const (
	HistoryBehind = "history-behind"
	HeldShare     = "held"
	BeyondLinger  = "beyond-p99"
)
