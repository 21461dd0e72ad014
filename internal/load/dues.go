package load

// lingering is a frame that leaves when due unless it has left before.
type lingering struct {
	agent *agent
	frame *frame
	first uint64 // frames are used again: the number says whether it is still this one
	due   int64
}

// dues is a heap of them, the earliest first: agents that were asked to slow down
// linger longer than the others.
type dues []lingering

func (d *dues) push(l lingering) {
	h := append(*d, l)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].due <= l.due {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = l
	*d = h
}

// pop takes the earliest of at least one.
func (d *dues) pop() lingering {
	h := *d
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = lingering{}
	h = h[:len(h)-1]
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].due < h[down].due {
			down++
		}
		if h[down].due >= last.due {
			break
		}
		h[i], i = h[down], down
	}
	if len(h) > 0 {
		h[i] = last
	}
	*d = h
	return first
}
