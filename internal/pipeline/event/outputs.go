package event

import "math/bits"

// outputs is where a partition keeps the text of its states: extents inside large
// pages, so that a million texts are a few thousand objects for the garbage
// collector and a new text of about the same length is a copy in place.
//
// Extents come in classes (steps of 16 bytes to 256, then four per doubling); a
// freed extent waits on its class's list. Pages are never freed, only used again: memory
// follows the largest size so far.
type outputs struct {
	pages [][]byte
	used  int                  // bytes taken of the last page
	free  [classes][]outputRef // by class
	big   map[uint32][]byte    // texts above maxExtent, by number
	bigNo uint32
}

// outputRef names a text: a page and an offset in units, or a big text's number.
type outputRef struct {
	at   uint32
	size uint32
}

const (
	unit      = 16
	pageBits  = 12 // units per page: 64 KiB
	pageBytes = unit << pageBits
	firstPage = 1 << 10
	maxExtent = 16 << 10
	classes   = 40
)

// classOf is the class of a size from 1 to maxExtent.
func classOf(size uint32) int {
	if size <= 256 {
		return int(size-1) / unit
	}
	exp := bits.Len32(size-1) - 1 // 8 for 257…512
	quarter := (size - 1) >> (exp - 2) & 3
	return 16 + (exp-8)*4 + int(quarter)
}

// classBytes is the room of a class, a multiple of unit.
func classBytes(class int) int {
	if class < 16 {
		return (class + 1) * unit
	}
	exp := 8 + (class-16)/4
	return 1<<exp + ((class-16)%4+1)<<(exp-2)
}

// bytes is the text; it is valid until the next set or drop.
func (o *outputs) bytes(r outputRef) []byte {
	switch {
	case r.size == 0:
		return nil
	case r.size > maxExtent:
		return o.big[r.at]
	}
	return o.extent(r)[:r.size]
}

func (o *outputs) extent(r outputRef) []byte {
	page := o.pages[r.at>>pageBits]
	return page[int(r.at&(1<<pageBits-1))*unit:]
}

// set replaces the text of r and returns the new reference.
func (o *outputs) set(r outputRef, text []byte) outputRef {
	size := uint32(len(text))
	if r.size != 0 && size != 0 && r.size <= maxExtent && size <= maxExtent && classOf(r.size) == classOf(size) {
		r.size = size
		copy(o.extent(r), text)
		return r
	}
	o.drop(r)
	switch {
	case size == 0:
		return outputRef{}
	case size > maxExtent:
		if o.big == nil {
			o.big = map[uint32][]byte{}
		}
		o.bigNo++
		o.big[o.bigNo] = append([]byte(nil), text...)
		return outputRef{o.bigNo, size}
	}
	r = o.allocate(classOf(size))
	r.size = size
	copy(o.extent(r), text)
	return r
}

func (o *outputs) drop(r outputRef) {
	switch {
	case r.size == 0:
	case r.size > maxExtent:
		delete(o.big, r.at)
	default:
		class := classOf(r.size)
		o.free[class] = append(o.free[class], r)
	}
}

func (o *outputs) allocate(class int) outputRef {
	if list := o.free[class]; len(list) > 0 {
		r := list[len(list)-1]
		o.free[class] = list[:len(list)-1]
		return r
	}
	size := classBytes(class)
	last := len(o.pages) - 1
	if last < 0 || len(o.pages[last])-o.used < size {
		// Pages grow with the partition: 256 partitions of a small fleet stay small.
		page := firstPage
		if last >= 0 {
			page = min(2*len(o.pages[last]), pageBytes)
		}
		for page < size {
			page *= 2
		}
		o.pages = append(o.pages, make([]byte, page))
		o.used = 0
		last++
	}
	r := outputRef{at: uint32(last)<<pageBits | uint32(o.used/unit)}
	o.used += size
	return r
}
