package zabbix

import (
	"bytes"
	"encoding/json"

	"github.com/muster-fleet/muster/internal/model"
)

// request is the decoded request of a Zabbix sender or agent. Fields that this server does not use are left out.
type request struct {
	Request string `json:"request"`
	Data    rows   `json:"data"`

	// Of agents.
	Host          string `json:"host"`
	HostMetadata  string `json:"host_metadata"`
	Version       string `json:"version"`        // the C agent of Zabbix 6.0 states none
	Variant       int    `json:"variant"`        // 2: Zabbix agent 2
	Session       string `json:"session"`        // of this run of the program
	HeartbeatFreq int    `json:"heartbeat_freq"` // s
}

// row is one value in a Zabbix request, with host name, item key and time.
type row struct {
	Host  string     `json:"host"`
	Key   string     `json:"key"`
	Value *valueText `json:"value"` // nil: there is none
	Clock int64      `json:"clock"` // s since 1970; zero: the sender states none
	NS    int64      `json:"ns"`

	// Of agents.
	ID     uint64 `json:"id"`     // number of the value in this run of the program
	ItemID uint64 `json:"itemid"` // in place of a key
	State  int    `json:"state"`  // 1: the agent cannot collect the item, and the value is the reason

	// Of logs.
	LastLogSize *uint64 `json:"lastlogsize"` // position behind the value; without a value: behind lines that do not match
	MTime       int64   `json:"mtime"`       // of the log file
}

// maxRows bounds the values of one request. The buffer of an agent has at most 65,535.
const maxRows = 100_000

// rows are the values of a request. A short text may stand for many, so that decoding limits their number.
type rows []row

// UnmarshalJSON decodes a list of values, one after the other.
func (r *rows) UnmarshalJSON(data []byte) error {
	if *r = nil; string(data) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if token, err := d.Token(); err != nil || token != json.Delim('[') {
		return model.Errorf(model.Invalid, "the values of the request are no list")
	}
	for d.More() {
		if len(*r) == maxRows {
			return model.Errorf(model.TooLarge, "the request has more than %d values", maxRows)
		}
		*r = append(*r, row{})
		if err := d.Decode(&(*r)[len(*r)-1]); err != nil {
			return err
		}
	}
	return nil
}

// valueText is the value of an item as text, from a JSON string or number. Senders write it as a JSON string, but
// Zabbix' server also accepts JSON numbers.
type valueText string

// UnmarshalJSON decodes a JSON string, or keeps the digits of a JSON number.
func (t *valueText) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(t))
	}
	if c := data[0]; c != '-' && (c < '0' || c > '9') {
		return model.Errorf(model.Invalid, "the value %s is neither a string nor a number", model.Truncate(string(data), 100))
	}
	*t = valueText(data)
	return nil
}

// parseRequest parses the payload of a request. The texts of rows may be parts of it.
func parseRequest(payload []byte) (*request, error) {
	payload = bytes.TrimRight(payload, "\x00\n")
	if r, ok := scanRequest(payload); ok {
		return r, nil
	}
	r := &request{}
	if err := json.Unmarshal(payload, r); err != nil {
		return nil, model.Errorf(model.Invalid, "cannot parse the request as JSON: %w", err)
	}
	return r, nil
}
