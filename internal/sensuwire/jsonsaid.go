package sensuwire

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// ReadSaid implements Codec.
func (JSON) ReadSaid(body []byte, s *Said) error {
	s.reset()
	ok := members(body, func(key, value []byte) bool {
		switch string(key) {
		case "entity":
			s.Machine = value
			return string(value) == "null" || s.readEntityJSON(value)
		case "check":
			if string(value) != "null" {
				s.HasCheck, s.check = true, value
				return s.readCheckJSON(value)
			}
		case "metrics":
			if string(value) != "null" {
				s.Metrics, s.points = true, value
			}
		case "pipelines":
			if string(value) != "null" {
				s.piped = append(s.piped[:0], value)
			}
		}
		return true
	})
	if !ok {
		return notJSON("an event")
	}
	for _, list := range s.piped {
		s.Sum += xxhash.Sum64(list)
	}
	return s.whole()
}

// string reads a string into scratch, where it has to be written anew.
func (s *Said) string(value []byte, into *[]byte) bool {
	from := len(s.text)
	var ok bool
	s.text, ok = appendString(s.text, value)
	*into = s.text[from:len(s.text):len(s.text)]
	return ok
}

func (s *Said) readEntityJSON(object []byte) bool {
	return members(object, func(key, value []byte) bool {
		switch string(key) {
		case "metadata":
			s.Sum += xxhash.Sum64(value)
			return s.readMetaJSON(value, &s.Entity, &s.Namespace)
		case "system", "subscriptions", "sensu_agent_version", "keepalive_handlers":
			s.Sum += xxhash.Sum64(value)
		}
		return true
	})
}

func (s *Said) readMetaJSON(object []byte, name, namespace *[]byte) bool {
	return members(object, func(key, value []byte) bool {
		switch string(key) {
		case "name":
			return s.string(value, name)
		case "namespace":
			return s.string(value, namespace)
		}
		return true
	})
}

func (s *Said) readCheckJSON(object []byte) bool {
	return members(object, func(key, value []byte) bool {
		switch string(key) {
		case "interval":
			s.Interval = uint32(integer(value))
		case "proxy_entity_name":
			return s.string(value, &s.Proxy)
		case "ttl":
			s.TTL = integer(value)
		case "timeout":
			s.Timeout = uint32(integer(value))
		case "duration":
			s.Duration, _ = strconv.ParseFloat(string(value), 64)
		case "executed":
			s.Executed = integer(value)
		case "issued":
			s.Issued = integer(value)
		case "output":
			return s.string(value, &s.Output)
		case "status":
			s.Status = uint32(integer(value))
		case "hooks":
			if string(value) != "null" {
				s.hooks = append(s.hooks[:0], value)
			}
		case "metadata":
			var namespace []byte
			return s.readMetaJSON(value, &s.Check, &namespace)
		}
		return true
	})
}

// ReadMachine implements Codec.
func (JSON) ReadMachine(entity []byte) (*Machine, error) {
	m := &Machine{}
	ok := members(entity, func(key, value []byte) bool {
		switch string(key) {
		case "entity_class":
			m.Class = stringOf(value)
		case "system":
			return m.System.readJSON(value)
		case "subscriptions":
			return elements(value, func(value []byte) bool {
				m.Subscriptions = addItem(m.Subscriptions, stringOf(value))
				return true
			})
		case "deregister":
			m.Deregister = string(value) == "true"
		case "deregistration":
			return string(value) == "null" || members(value, func(key, value []byte) bool {
				if string(key) == "handler" {
					m.Deregistration = stringOf(value)
				}
				return true
			})
		case "sensu_agent_version":
			m.AgentVersion = stringOf(value)
		case "keepalive_handlers":
			return elements(value, func(value []byte) bool {
				m.KeepaliveHandlers = addItem(m.KeepaliveHandlers, stringOf(value))
				return true
			})
		case "metadata":
			return m.readMetaJSON(value)
		}
		return true
	})
	if !ok {
		return nil, notJSON("an entity")
	}
	return m, nil
}

func (m *Machine) readMetaJSON(object []byte) bool {
	return members(object, func(key, value []byte) bool {
		switch string(key) {
		case "name":
			m.Name = stringOf(value)
		case "namespace":
			m.Namespace = stringOf(value)
		case "labels":
			return readPairs(value, &m.Labels)
		case "annotations":
			return readPairs(value, &m.Annotations)
		}
		return true
	})
}

func readPairs(object []byte, into *map[string]string) bool {
	if string(object) == "null" {
		return true
	}
	*into = map[string]string{}
	return members(object, func(key, value []byte) bool {
		if len(*into) < maxItems {
			(*into)[stringOf([]byte(`"`+string(key)+`"`))] = stringOf(value)
		}
		return true
	})
}

func (y *System) readJSON(object []byte) bool {
	return string(object) == "null" || members(object, func(key, value []byte) bool {
		switch string(key) {
		case "hostname":
			y.Hostname = stringOf(value)
		case "os":
			y.OS = stringOf(value)
		case "platform":
			y.Platform = stringOf(value)
		case "platform_family":
			y.PlatformFamily = stringOf(value)
		case "platform_version":
			y.PlatformVersion = stringOf(value)
		case "arch":
			y.Arch = stringOf(value)
		case "vm_system":
			y.VMSystem = stringOf(value)
		case "cloud_provider":
			y.CloudProvider = stringOf(value)
		case "network":
			return y.readNetworkJSON(value)
		}
		return true
	})
}

func (y *System) readNetworkJSON(object []byte) bool {
	return string(object) == "null" || members(object, func(key, value []byte) bool {
		return string(key) != "interfaces" || elements(value, func(value []byte) bool {
			return members(value, func(key, value []byte) bool {
				return string(key) != "addresses" || elements(value, func(value []byte) bool {
					y.Addresses = addItem(y.Addresses, stringOf(value))
					return true
				})
			})
		})
	})
}
