package policy

import (
	"cmp"
	"fmt"
	"slices"
)

// Status is the result of one component (checked part of a directive) in a run, such as compliant. It is also
// the status of a component of which no run says anything. Statuses up to lastReported travel in reports as
// codes of four bits.
type Status uint8

// Statuses that an agent reports for a component. Missing is a component that the run did not reach: an agent never
// reports another status of a component that it did not evaluate.
const (
	Missing       Status = iota
	NotApplicable        // the condition is false, or the method does nothing in this mode
	Compliant            // audit: as it should be
	Success              // enforce: as it should be, nothing was changed
	Repaired             // enforce: it was changed, and a second check found it as it should be
	NonCompliant         // audit: not as it should be
	Error                // enforce: it could not be repaired
	CouldNotCheck        // the check itself failed, so nobody knows
	Waived               // it is not compliant or could not be checked, and a Waiver excuses it

	lastReported = Waived
)

// Statuses that the server gives to components without a counting report.
const (
	Pending    Status = lastReported + 1 + iota // the directive changed, and the next run is awaited
	NoReport                                    // the run is overdue
	Unexpected                                  // the report is of a definition that the node must not have any more
)

// statusNames has the name of each status.
var statusNames = [...]string{
	Missing: "missing", NotApplicable: "not applicable", Compliant: "compliant", Success: "success", Repaired: "repaired",
	NonCompliant: "non-compliant", Error: "error", CouldNotCheck: "could not check", Waived: "waived",
	Pending: "pending", NoReport: "no report", Unexpected: "unexpected",
}

// Statuses is the number of statuses.
const Statuses = len(statusNames)

// String returns the name of the status, such as "non-compliant".
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Reported reports whether agents themselves report the status, unlike statuses that the server sets.
func (s Status) Reported() bool { return s <= lastReported }

// Fulfilled reports whether a component with the status counts as compliant.
func (s Status) Fulfilled() bool {
	return s == NotApplicable || s == Compliant || s == Success || s == Repaired
}

// Enforced reports whether a component with the status was enforced, not only audited. known is false if it may belong
// to either.
func (s Status) Enforced() (enforced, known bool) {
	switch s {
	case Success, Repaired, Error:
		return true, true
	case Compliant, NonCompliant, Waived:
		return false, true
	}
	return false, false
}

// badness ranks the statuses in Rudder's order, best first. Rudder has no waived components.
var badness = [Statuses]uint8{
	NotApplicable: 0, Compliant: 1, Success: 2, Waived: 3, Pending: 4, NoReport: 5, Missing: 6, Repaired: 7, NonCompliant: 8, CouldNotCheck: 9, Error: 10, Unexpected: 11,
}

// Worst returns the worse one of two statuses.
func Worst(a, b Status) Status {
	if badness[a] >= badness[b] {
		return a
	}
	return b
}

// Counts has the number of components (checked parts of directives) with each status.
type Counts [Statuses]int

// Add adds the numbers of another Counts to the receiver.
func (c *Counts) Add(o *Counts) {
	for i := range c {
		c[i] += o[i]
	}
}

// Total returns the number of components over all statuses.
func (c *Counts) Total() (n int) {
	for _, k := range c {
		n += k
	}
	return n
}

// Counted returns the counts without components that are waived or wait for their next run. It leaves out components
// with an awaited next run, and components that a Waiver excuses.
func (c *Counts) Counted() Counts {
	out := *c
	out[Pending], out[Waived] = 0, 0
	return out
}

// MaxPrecision is the highest number of digits behind the point of a percentage.
const MaxPrecision = 5

// Percents returns the percentage of each status as integers, rounded as Rudder does. Each share but the largest is
// truncated, but never to zero. The largest is the rest, so that all add up to 100. Nothing counted: all are zero.
func (c *Counts) Percents(precision int) (shares [Statuses]int) {
	total := c.Total()
	if total == 0 {
		return shares
	}
	unit := 1
	for range min(max(precision, 0), MaxPrecision) {
		unit *= 10
	}
	order := make([]Status, Statuses)
	for i := range order {
		order[i] = Status(i)
	}
	slices.SortFunc(order, func(a, b Status) int { return cmp.Or(cmp.Compare(c[a], c[b]), cmp.Compare(badness[a], badness[b])) })
	rest, raised := 100*unit, 1.0
	for _, s := range order[:Statuses-1] {
		if c[s] == 0 {
			continue
		}
		share := int(float64(c[s]) * 100 * float64(unit) / float64(total) / raised)
		if share < 1 {
			share, raised = 1, raised+0.01
		}
		shares[s] = share
		rest -= share
	}
	shares[order[Statuses-1]] = rest
	return shares
}

// Compliance formats the share of fulfilled components in percent, such as "97.50". precision is the number of digits.
// Pending and waived components do not count. The text is empty if nothing counts.
func (c *Counts) Compliance(precision int) string {
	counted := c.Counted()
	if counted.Total() == 0 {
		return ""
	}
	precision = min(max(precision, 0), MaxPrecision)
	sum := 0
	for s, share := range counted.Percents(precision) {
		if Status(s).Fulfilled() {
			sum += share
		}
	}
	if precision == 0 {
		return fmt.Sprint(sum)
	}
	text := fmt.Sprintf("%0*d", precision+1, sum)
	at := len(text) - precision
	return text[:at] + "." + text[at:]
}
