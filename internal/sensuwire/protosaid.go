package sensuwire

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// ReadSaid implements Codec.
func (Protobuf) ReadSaid(body []byte, s *Said) error {
	s.reset()
	for rest := body; len(rest) > 0; {
		f, _, content, after, ok := next(rest)
		if !ok {
			return unreadable("an event")
		}
		rest = after
		switch f {
		case 2<<3 | ofBytes:
			s.Machine = content
			if !s.readEntity(content) {
				return unreadable("an entity")
			}
		case 3<<3 | ofBytes:
			s.HasCheck, s.check = true, content
			if !s.readCheck(content) {
				return unreadable("a check")
			}
		case 4<<3 | ofBytes:
			s.Metrics, s.points = true, content
		case 8<<3 | ofBytes:
			s.piped = append(s.piped, content)
		}
	}
	for _, reference := range s.piped {
		s.Sum += xxhash.Sum64(reference)
	}
	return s.whole()
}

// readEntity reads who it is; what else it says is summed up, but for last_seen, which differs
// each time. The order of labels does, too, so that the sum does not know it.
func (s *Said) readEntity(message []byte) bool {
	var sum uint64
	for rest := message; len(rest) > 0; {
		f, _, content, after, ok := next(rest)
		if !ok {
			return false
		}
		rest = after
		switch f {
		case 3<<3 | ofBytes, 4<<3 | ofBytes, 15<<3 | ofBytes, 16<<3 | ofBytes:
			sum += xxhash.Sum64(content)
		case 14<<3 | ofBytes:
			if !readMeta(content, &s.Entity, &s.Namespace) {
				return false
			}
			for meta := content; len(meta) > 0; {
				_, _, content, meta, _ = next(meta) // read once before
				sum += xxhash.Sum64(content)
			}
		}
	}
	s.Sum = sum
	return true
}

func readMeta(message []byte, name, namespace *[]byte) bool {
	for rest := message; len(rest) > 0; {
		f, _, content, after, ok := next(rest)
		if !ok {
			return false
		}
		rest = after
		switch f {
		case 1<<3 | ofBytes:
			*name = content
		case 2<<3 | ofBytes:
			*namespace = content
		}
	}
	return true
}

func (s *Said) readCheck(message []byte) bool {
	for rest := message; len(rest) > 0; {
		f, number, content, after, ok := next(rest)
		if !ok {
			return false
		}
		rest = after
		switch f {
		case 5<<3 | ofVarint:
			s.Interval = uint32(number)
		case 13<<3 | ofBytes:
			s.Proxy = content
		case 18<<3 | ofVarint:
			s.TTL = int64(number)
		case 19<<3 | ofVarint:
			s.Timeout = uint32(number)
		case 22<<3 | ofFixed64:
			s.Duration = math.Float64frombits(number)
		case 23<<3 | ofVarint:
			s.Executed = int64(number)
		case 25<<3 | ofVarint:
			s.Issued = int64(number)
		case 26<<3 | ofBytes:
			s.Output = content
		case 28<<3 | ofVarint:
			s.Status = uint32(number)
		case 34<<3 | ofBytes:
			s.hooks = append(s.hooks, content)
		case 38<<3 | ofBytes:
			var namespace []byte
			if !readMeta(content, &s.Check, &namespace) {
				return false
			}
		}
	}
	return true
}

// ReadMachine implements Codec.
func (Protobuf) ReadMachine(entity []byte) (*Machine, error) {
	m := &Machine{}
	for rest := entity; len(rest) > 0; {
		f, number, content, after, ok := next(rest)
		if !ok {
			return nil, unreadable("an entity")
		}
		rest = after
		switch f {
		case 1<<3 | ofBytes:
			m.Class = string(content)
		case 3<<3 | ofBytes:
			ok = m.System.readProto(content)
		case 4<<3 | ofBytes:
			m.Subscriptions = addItem(m.Subscriptions, string(content))
		case 6<<3 | ofVarint:
			m.Deregister = number != 0
		case 7<<3 | ofBytes:
			var handler, rest []byte
			ok = readMeta(content, &handler, &rest) // its place is that of a name
			m.Deregistration = string(handler)
		case 14<<3 | ofBytes:
			ok = m.readMeta(content)
		case 15<<3 | ofBytes:
			m.AgentVersion = string(content)
		case 16<<3 | ofBytes:
			m.KeepaliveHandlers = addItem(m.KeepaliveHandlers, string(content))
		}
		if !ok {
			return nil, unreadable("an entity")
		}
	}
	return m, nil
}

func addItem(list []string, item string) []string {
	if len(list) == maxItems {
		return list
	}
	return append(list, item)
}

func (m *Machine) readMeta(message []byte) bool {
	for rest := message; len(rest) > 0; {
		f, _, content, after, ok := next(rest)
		if !ok {
			return false
		}
		rest = after
		switch f {
		case 1<<3 | ofBytes:
			m.Name = string(content)
		case 2<<3 | ofBytes:
			m.Namespace = string(content)
		case 3<<3 | ofBytes:
			ok = readPair(content, &m.Labels)
		case 4<<3 | ofBytes:
			ok = readPair(content, &m.Annotations)
		}
		if !ok {
			return false
		}
	}
	return true
}

// readPair reads an entry of a map; its key and value have the places of a name and a namespace.
func readPair(message []byte, into *map[string]string) bool {
	var key, value []byte
	if !readMeta(message, &key, &value) {
		return false
	}
	if *into == nil {
		*into = map[string]string{}
	}
	if len(*into) < maxItems {
		(*into)[string(key)] = string(value)
	}
	return true
}

func (y *System) readProto(message []byte) bool {
	for rest := message; len(rest) > 0; {
		f, _, content, after, ok := next(rest)
		if !ok {
			return false
		}
		rest = after
		switch f {
		case 1<<3 | ofBytes:
			y.Hostname = string(content)
		case 2<<3 | ofBytes:
			y.OS = string(content)
		case 3<<3 | ofBytes:
			y.Platform = string(content)
		case 4<<3 | ofBytes:
			y.PlatformFamily = string(content)
		case 5<<3 | ofBytes:
			y.PlatformVersion = string(content)
		case 6<<3 | ofBytes:
			ok = y.readNetwork(content)
		case 7<<3 | ofBytes:
			y.Arch = string(content)
		case 10<<3 | ofBytes:
			y.VMSystem = string(content)
		case 12<<3 | ofBytes:
			y.CloudProvider = string(content)
		}
		if !ok {
			return false
		}
	}
	return true
}

// readNetwork reads a Network, whose field 1 are its interfaces, whose field 3 are addresses.
func (y *System) readNetwork(message []byte) bool {
	for rest := message; len(rest) > 0; {
		f, _, content, after, ok := next(rest)
		if !ok {
			return false
		}
		rest = after
		if f != 1<<3|ofBytes {
			continue
		}
		for left := content; len(left) > 0; {
			g, _, address, behind, ok := next(left)
			if !ok {
				return false
			}
			left = behind
			if g == 3<<3|ofBytes {
				y.Addresses = addItem(y.Addresses, string(address))
			}
		}
	}
	return true
}
