package load

import (
	"testing"
	"time"
)

// Who waits beside the results is timed by the second, and each answer once.
func TestWaitsOfASecond(t *testing.T) {
	r := &run{}
	r.follow(forever(0, int64(time.Hour)))
	if got := waits(r.beside.take()); got != nil {
		t.Errorf("%v before anybody asked", got)
	}
	r.waited("list-p99", 1, int64(20*time.Millisecond), 1)
	r.waited("list-p99", 2, int64(80*time.Millisecond), 1)
	r.waited("apply-p99", 3, int64(5*time.Millisecond), 1)
	near := func(got, want float64) bool { return got > 0.98*want && got < 1.02*want }
	if got := waits(r.beside.take()); len(got) != 2 || !near(got["list-p99"], 80) || !near(got["apply-p99"], 5) {
		t.Errorf("%v", got)
	}
	r.waited("apply-p99", int64(time.Second), int64(7*time.Millisecond), 1)
	if got := waits(r.beside.take()); len(got) != 1 || !near(got["apply-p99"], 7) {
		t.Errorf("%v in the second after", got)
	}
	if list := r.besidesOf(0, nil, newTally()); len(list) != 2 || list[1].Count != 2 {
		t.Errorf("the part has %+v", list)
	}
}
