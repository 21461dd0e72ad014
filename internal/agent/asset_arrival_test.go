package agent

import "testing"

// TestArchiveThatArrivesMeanwhileIsFound lets an archive arrive after a run has looked for it in vain, but before the
// run records the failure, and expects the run to look again, and to look only once if no archive arrives.
func TestArchiveThatArrivesMeanwhileIsFound(t *testing.T) {
	var c checks
	looked, missed := 0, 0
	c.untilAsset(func() bool {
		if looked++; looked == 1 {
			c.arrivals.Add(1)
			return false
		}
		return true
	}, func() { missed++ })
	if looked != 2 || missed != 1 {
		t.Errorf("looked %d times, missed the archive %d times", looked, missed)
	}
	looked, missed = 0, 0
	c.untilAsset(func() bool { looked++; return false }, func() { missed++ })
	if looked != 1 || missed != 1 {
		t.Errorf("without an arrival: looked %d times, missed the archive %d times", looked, missed)
	}
}
