package muster

import (
	"strings"

	"github.com/muster-fleet/muster/internal/source/core"
)

// pay pays for a batch and waits while there is debt: the agent's next frames wait in its socket, then in its spool.
func (x *session) pay(c *core.Charge) {
	debt := x.budget.Spend(c)
	if debt.Wait == 0 {
		return
	}
	x.slow(x.srv.sinceBegan(), slowMost, debt.Reason())
	x.throttle(&debt)
}

// payFrame pays for a frame without signals: pings, batches sent again and unknown messages are not free.
func (x *session) payFrame() {
	if debt := x.budget.SpendFrame(); debt.Wait > 0 {
		x.throttle(&debt)
	}
}

// throttle pauses the reader and counts the limit.
func (x *session) throttle(debt *core.Debt) {
	x.srv.metrics.throttled.WithLabelValues(strings.TrimSuffix(debt.Limit(), "_rate")).Inc()
	x.budget.Hit(debt.Limit(), debt.Reason())
	x.budget.Wait(x.srv.base, debt.Wait, &x.Window)
}
