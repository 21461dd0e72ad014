// Package expect is the deadline engine: a missed keepalive and an overdue TTL are both
// an id whose deadline passed on the journal's listening time.
//
// In: ids with deadlines, and the present time. Out: the ids whose deadline passed. It owns no goroutine, no lock and
// no clock: the caller passes the time and guards the engine with a mutex of its own. Ids are small dense numbers
// (slots of the view). Start at Engine.
package expect

// Engine has a deadline for each numeric id, and finds the ids whose deadline has passed. It returns the ids whose
// deadline has passed. Times are nanoseconds of listening time; zero means none.
//
// Deadlines are refreshed far more often than they pass, so a refresh to a later time is one store: the id's heap
// entry keeps its old time, and Expired pushes it again when that time comes. Invariant: an id with a deadline has a
// heap entry at that time or earlier. The zero value is ready.
type Engine struct {
	deadlines  []int64     // by id: the deadline
	entryTimes []int64     // by id: time of the id's one valid heap entry; zero: none
	heap       []heapEntry // a binary min-heap by time
}

// heapEntry has an id in the heap of deadlines, and the time to look again at its deadline. It has an id, and
// the time at which the engine looks at the id's deadline.
type heapEntry struct {
	at int64
	id uint32
}

// Set sets or replaces the deadline of an id. The parameter at must be positive.
func (e *Engine) Set(id uint32, at int64) {
	if int(id) >= len(e.deadlines) {
		e.growIDs(int(id) + 1)
	}
	e.deadlines[id] = at
	if a := e.entryTimes[id]; a != 0 && a <= at {
		return
	}
	e.entryTimes[id] = at
	e.pushEntry(heapEntry{at, id})
}

// Clear removes the deadline of an id.
func (e *Engine) Clear(id uint32) {
	if int(id) < len(e.deadlines) {
		e.deadlines[id] = 0
	}
}

// Due returns the time of an id's deadline, or zero if the id has no deadline.
func (e *Engine) Due(id uint32) int64 {
	if int(id) >= len(e.deadlines) {
		return 0
	}
	return e.deadlines[id]
}

// Next returns the earliest time at which a deadline may pass, or zero without deadlines. The earliest deadline may be
// later.
func (e *Engine) Next() int64 {
	if len(e.heap) == 0 {
		return 0
	}
	return e.heap[0].at
}

// Expired removes all deadlines that have passed, and appends their ids to dst. A deadline has passed if it is at or
// before now. The order of ids depends on earlier calls: a caller that needs the same order after a restore has to
// sort them.
func (e *Engine) Expired(now int64, dst []uint32) []uint32 {
	for len(e.heap) > 0 && e.heap[0].at <= now {
		top := e.popEntry()
		if e.entryTimes[top.id] != top.at {
			continue // an earlier entry of the id replaced it
		}
		e.entryTimes[top.id] = 0
		switch due := e.deadlines[top.id]; {
		case due == 0:
		case due <= now:
			e.deadlines[top.id] = 0
			dst = append(dst, top.id)
		default:
			e.entryTimes[top.id] = due
			e.pushEntry(heapEntry{due, top.id})
		}
	}
	return dst
}

// Len returns the length of the table of deadlines by id, one above the highest id so far.
func (e *Engine) Len() int { return len(e.deadlines) }

// Entries returns the number of entries in the heap, outdated entries included.
func (e *Engine) Entries() int { return len(e.heap) }

// growIDs enlarges the engine's tables, so that every id below n has an element.
func (e *Engine) growIDs(n int) {
	if n > cap(e.deadlines) {
		// Grow by a quarter: at a million states, doubling wastes memory.
		size := n + n/4 + 16
		e.deadlines = append(make([]int64, 0, size), e.deadlines...)
		e.entryTimes = append(make([]int64, 0, size), e.entryTimes...)
	}
	e.deadlines = e.deadlines[:n]
	e.entryTimes = e.entryTimes[:n]
}

// pushEntry adds an entry (id and time) to the heap of deadlines.
func (e *Engine) pushEntry(x heapEntry) {
	if len(e.heap) == cap(e.heap) {
		e.heap = append(make([]heapEntry, 0, len(e.heap)+len(e.heap)/4+16), e.heap...)
	}
	e.heap = append(e.heap, x)
	i := len(e.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if e.heap[parent].at <= x.at {
			break
		}
		e.heap[i] = e.heap[parent]
		i = parent
	}
	e.heap[i] = x
}

// popEntry removes and returns the heap entry with the earliest time.
func (e *Engine) popEntry() heapEntry {
	top := e.heap[0]
	last := len(e.heap) - 1
	x := e.heap[last]
	e.heap = e.heap[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && e.heap[child+1].at < e.heap[child].at {
			child++
		}
		if x.at <= e.heap[child].at {
			break
		}
		e.heap[i] = e.heap[child]
		i = child
	}
	if last > 0 {
		e.heap[i] = x
	}
	return top
}
