package core

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// Fill levels of the server's resources from which sources slow their senders. They differ by class of traffic. Values
// are slowed from a quarter on, results and reports from half on. Keepalives are never slowed; only a full queue
// blocks them.
const (
	SlowResultsAt = 0.5
	SlowValuesAt  = SlowResultsAt / 2
)

// FillLevel is a function that returns how full a server resource is (0 to 1), with a reason. It is called often, also
// by several goroutines, and must not block.
type FillLevel func() (share float64, reason string)

// usualBudgetShare is the share of its size limit that a journal uses in normal operation. Senders are slowed above
// it: values above 85 %, results above 90 %, where people are warned.
const usualBudgetShare = 0.8

// FillLevels has the functions that measure how full the server's resources are, to slow senders in time.
type FillLevels struct {
	Stats       func() journal.Stats
	QueueBytes  int64 // capacity of the journal's queue
	OtherQueues []FillLevel

	mu     sync.Mutex // guards the fields below
	seen   time.Time  // of level and reason
	level  float64
	reason string
}

// Highest returns how full the fullest resource is (0 to 1), and why senders are slowed.
func (p *FillLevels) Highest() (share float64, reason string) {
	st := p.Stats()
	if st.Blocked != nil {
		return 1, "the server cannot write its journal now: " + st.Blocked.Error()
	}
	share = float64(st.QueuedBytes) / float64(p.QueueBytes)
	reason = fmt.Sprintf("the journal's queue is %.0f %% full", 100*share)
	if st.BudgetBytes > 0 {
		used := float64(st.SizeBytes) / float64(st.BudgetBytes)
		if level := (used - usualBudgetShare) / (1 - usualBudgetShare); level > share {
			share, reason = level, "the server's journal is nearly full"
		}
	}
	for _, other := range p.OtherQueues {
		if level, why := other(); level > share {
			share, reason = level, why
		}
	}
	return share, reason
}

const (
	// pressureWait is the longest time for which a request waits, much less than the time-outs of senders.
	pressureWait = 5 * time.Second
	// pressurePoll is the time between two looks of all waiting requests.
	pressurePoll = 50 * time.Millisecond
	// maxRefuseAt bounds the fill level from which requests are refused.
	maxRefuseAt = 0.95
)

// recentHighest returns the highest fill level and its reason, measured at most pressurePoll ago. Many requests
// then cost one look.
func (p *FillLevels) recentHighest() (share float64, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.seen.IsZero() || now.Sub(p.seen) >= pressurePoll {
		p.seen = now
		p.level, p.reason = p.Highest()
	}
	return p.level, p.reason
}

// Wait waits until a class of traffic is allowed at the highest fill level, or until a timeout. Above twice
// this level it returns an error then: the sender has to send the data again. Sources whose senders have no
// BackPressure message call it before they charge and append.
func (p *FillLevels) Wait(ctx context.Context, slowAt float64) error {
	for left := pressureWait; ; left -= pressurePoll {
		share, reason := p.recentHighest()
		if share <= slowAt || left <= 0 && share <= min(2*slowAt, maxRefuseAt) {
			return nil
		}
		if left <= 0 || pause.For(ctx, pressurePoll) != nil {
			return model.Errorf(model.Unavailable, "the server is overloaded and accepts no more data now: %s", reason).WithHint("send it again; muster status has the reason")
		}
	}
}
