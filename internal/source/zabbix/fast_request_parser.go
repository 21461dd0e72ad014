package zabbix

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

// requestScanner reads a JSON request of Zabbix' programs quickly. Such a request has no white space, no escapes, and
// each value is a text. After a failure its methods return zero values.
type requestScanner struct {
	text   string
	at     int
	failed bool
	values []valueText // memory for the values of the next rows
}

// scanRequest reads a request of Zabbix' programs quickly. ok is false if the request has another form. The texts of
// its rows are parts of the payload.
func scanRequest(payload []byte) (r *request, ok bool) {
	s := requestScanner{text: unsafe.String(unsafe.SliceData(payload), len(payload))}
	r = &request{}
	s.readObject(func(name string) {
		switch name {
		case "request":
			r.Request = strings.Clone(s.readText())
		case "host":
			r.Host = strings.Clone(s.readText())
		case "host_metadata":
			r.HostMetadata = strings.Clone(s.readText())
		case "version":
			r.Version = strings.Clone(s.readText())
		case "session":
			r.Session = strings.Clone(s.readText())
		case "variant":
			r.Variant = int(s.readNumber())
		case "heartbeat_freq":
			r.HeartbeatFreq = int(s.readNumber())
		case "clock", "ns":
			s.readNumber()
		case "data":
			s.failed = s.failed || r.Data != nil
			r.Data = s.readRows()
		default:
			s.failed = true
		}
	})
	return r, !s.failed && s.at == len(s.text)
}

// readRows reads the JSON array of values in a request.
func (s *requestScanner) readRows() []row {
	s.expect('[')
	usual := min(len(s.text)/64+1, 250) // zabbix_sender sends 250 values at once
	rows := make([]row, 0, usual)
	if s.consume(']') {
		return rows
	}
	for !s.failed {
		if len(rows) == maxRows { // the other decoder refuses the request
			s.failed = true
			break
		}
		rows = append(rows, row{})
		r := &rows[len(rows)-1]
		s.readObject(func(name string) {
			switch name {
			case "host":
				r.Host = s.readText()
			case "key":
				r.Key = s.readText()
			case "value":
				if len(s.values) == 0 {
					s.values = make([]valueText, usual)
				}
				r.Value, s.values = &s.values[0], s.values[1:]
				*r.Value = valueText(s.readText())
			case "clock":
				r.Clock = int64(s.readNumber())
			case "ns":
				r.NS = int64(s.readNumber())
			case "id":
				r.ID = s.readNumber()
			case "itemid":
				r.ItemID = s.readNumber()
			case "state":
				r.State = int(s.readNumber())
			case "lastlogsize":
				r.LastLogSize = new(s.readNumber())
			case "mtime":
				r.MTime = int64(s.readNumber())
			default:
				s.failed = true
			}
		})
		if !s.consume(',') {
			break
		}
	}
	s.expect(']')
	return rows
}

// readObject reads a JSON object, and calls read for the value of each field. The object has at least one field.
func (s *requestScanner) readObject(read func(name string)) {
	s.expect('{')
	for !s.failed {
		name := s.readText()
		s.expect(':')
		if read(name); !s.consume(',') {
			break
		}
	}
	s.expect('}')
}

// readText reads a JSON string of the request. An escape in the string is an error.
func (s *requestScanner) readText() string {
	s.expect('"')
	ascii := true
	for i := s.at; i < len(s.text) && !s.failed; i++ {
		switch c := s.text[i]; {
		case c == '"':
			text := s.text[s.at:i]
			s.at = i + 1
			s.failed = !ascii && !utf8.ValidString(text)
			return text
		case c == '\\' || c < ' ':
			s.failed = true
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.failed = true
	return ""
}

// readNumber reads a whole number without sign that has less than 19 digits.
func (s *requestScanner) readNumber() (n uint64) {
	from := s.at
	for ; s.at < len(s.text) && s.text[s.at]-'0' <= 9; s.at++ {
		n = n*10 + uint64(s.text[s.at]-'0')
	}
	digits := s.at - from
	s.failed = s.failed || digits == 0 || digits > 18 || digits > 1 && s.text[from] == '0'
	return n
}

// consume skips the byte c if the byte comes next. It reports whether it skipped the byte.
func (s *requestScanner) consume(c byte) bool {
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

// expect skips the given byte, or fails if another byte comes next.
func (s *requestScanner) expect(c byte) { s.failed = !s.consume(c) || s.failed }
