// Package expect is the deadline engine: a missed keepalive and an overdue TTL are both
// an id whose deadline passed on the journal's listening time.
//
// In: ids with deadlines, and the present time. Out: the ids whose deadline passed. It owns no goroutine, no lock and
// no clock: the caller passes the time and guards the engine with a mutex of its own. Ids are small dense numbers
// (slots of the view). Start at Engine.
package expect

// Engine holds at most one deadline per id. Times are nanoseconds of listening time; zero means none.
//
// Deadlines are refreshed far more often than they pass, so a refresh to a later time is one store: the id's heap
// entry keeps its old time, and Expired pushes it again when that time comes. Invariant: an id with a deadline has a
// heap entry at that time or earlier. The zero value is ready.
type Engine struct {
	due   []int64 // by id: the deadline
	armed []int64 // by id: time of its one valid entry; zero: none
	heap  []entry // a binary min-heap by time
}

type entry struct {
	at int64
	id uint32
}

// Set replaces the id's deadline; at is > 0.
func (e *Engine) Set(id uint32, at int64) {
	if int(id) >= len(e.due) {
		e.grow(int(id) + 1)
	}
	e.due[id] = at
	if a := e.armed[id]; a != 0 && a <= at {
		return
	}
	e.armed[id] = at
	e.push(entry{at, id})
}

// Clear removes the id's deadline.
func (e *Engine) Clear(id uint32) {
	if int(id) < len(e.due) {
		e.due[id] = 0
	}
}

// Due returns the id's deadline, zero for none.
func (e *Engine) Due(id uint32) int64 {
	if int(id) >= len(e.due) {
		return 0
	}
	return e.due[id]
}

// Next returns a lower bound of all deadlines, zero for none. The earliest deadline may be later.
func (e *Engine) Next() int64 {
	if len(e.heap) == 0 {
		return 0
	}
	return e.heap[0].at
}

// Expired appends to dst every id whose deadline is at or before now, and clears those deadlines. The order depends
// on earlier calls: a caller that needs the same order after a restore sorts.
func (e *Engine) Expired(now int64, dst []uint32) []uint32 {
	for len(e.heap) > 0 && e.heap[0].at <= now {
		top := e.pop()
		if e.armed[top.id] != top.at {
			continue // an earlier entry of the id replaced it
		}
		e.armed[top.id] = 0
		switch due := e.due[top.id]; {
		case due == 0:
		case due <= now:
			e.due[top.id] = 0
			dst = append(dst, top.id)
		default:
			e.armed[top.id] = due
			e.push(entry{due, top.id})
		}
	}
	return dst
}

// Len bounds the ids: every id that has a deadline is below it.
func (e *Engine) Len() int { return len(e.due) }

// Entries is the size of the heap: at least the number of deadlines.
func (e *Engine) Entries() int { return len(e.heap) }

func (e *Engine) grow(n int) {
	if n > cap(e.due) {
		// Grow by a quarter: at a million states, doubling wastes memory.
		size := n + n/4 + 16
		e.due = append(make([]int64, 0, size), e.due...)
		e.armed = append(make([]int64, 0, size), e.armed...)
	}
	e.due = e.due[:n]
	e.armed = e.armed[:n]
}

func (e *Engine) push(x entry) {
	if len(e.heap) == cap(e.heap) {
		e.heap = append(make([]entry, 0, len(e.heap)+len(e.heap)/4+16), e.heap...)
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

func (e *Engine) pop() entry {
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
