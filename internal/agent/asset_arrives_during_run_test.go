package agent

import "testing"

// TestArchiveThatArrivesMeanwhileIsFound lets an asset's archive arrive during a run, and expects a second look-up.
// The archive arrives between the first look-up and the record of the failure. If no archive arrives, the run looks
// only once.
func TestArchiveThatArrivesMeanwhileIsFound(t *testing.T) {
	var c checks
	looked, missed := 0, 0
	c.lookUpArchive(func() bool {
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
	c.lookUpArchive(func() bool { looked++; return false }, func() { missed++ })
	if looked != 1 || missed != 1 {
		t.Errorf("without an arrival: looked %d times, missed the archive %d times", looked, missed)
	}
}
