package sensuwire

// Rules are what an event says of its check beside the result: all that a backend has of a
// check that it does not know.
type Rules struct {
	Handlers, Pipelines []string // names
	FlapLow, FlapHigh   uint32   // percent of change; 0: not said
}

// ReadRules implements Codec.
func (Protobuf) ReadRules(s *Said) (r Rules, err error) {
	for rest := s.check; len(rest) > 0; {
		f, number, content, after, ok := next(rest)
		if !ok {
			return Rules{}, unreadable("a check")
		}
		rest = after
		switch f {
		case 3<<3 | ofBytes:
			r.Handlers = addItem(r.Handlers, string(content))
		case 4<<3 | ofVarint:
			r.FlapHigh = uint32(number)
		case 6<<3 | ofVarint:
			r.FlapLow = uint32(number)
		case 46<<3 | ofBytes: // a ResourceReference: name, type
			var name, kind []byte
			if !readMeta(content, &name, &kind) {
				return Rules{}, unreadable("a check's pipelines")
			}
			r.Pipelines = addItem(r.Pipelines, string(name))
		}
	}
	return r, nil
}

// ReadRules implements Codec.
func (JSON) ReadRules(s *Said) (r Rules, err error) {
	ok := members(s.check, func(key, value []byte) bool {
		if string(value) == "null" {
			return true
		}
		switch string(key) {
		case "handlers":
			return elements(value, func(value []byte) bool {
				r.Handlers = addItem(r.Handlers, stringOf(value))
				return true
			})
		case "high_flap_threshold":
			r.FlapHigh = uint32(integer(value))
		case "low_flap_threshold":
			r.FlapLow = uint32(integer(value))
		case "pipelines":
			return readReferences(value, &r.Pipelines)
		}
		return true
	})
	if !ok {
		return Rules{}, notJSON("a check")
	}
	return r, nil
}

// ReadPipelines implements Codec.
func (Protobuf) ReadPipelines(s *Said) (names []string, err error) {
	for _, reference := range s.piped {
		var name, kind []byte
		if !readMeta(reference, &name, &kind) {
			return nil, unreadable("an event's pipelines")
		}
		names = addItem(names, string(name))
	}
	return names, nil
}

// ReadPipelines implements Codec.
func (JSON) ReadPipelines(s *Said) (names []string, err error) {
	for _, list := range s.piped {
		if !readReferences(list, &names) {
			return nil, notJSON("an event's pipelines")
		}
	}
	return names, nil
}

// readReferences reads the names in a list of ResourceReferences.
func readReferences(list []byte, names *[]string) bool {
	return elements(list, func(value []byte) bool {
		return members(value, func(key, value []byte) bool {
			if string(key) == "name" {
				*names = addItem(*names, stringOf(value))
			}
			return true
		})
	})
}
