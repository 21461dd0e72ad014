package model

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes, written 65536, 64KiB, 1MiB or 4GiB.
type Size int64

var sizeUnits = [...]struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// ParseSize reads bytes with or without a unit.
func ParseSize(text string) (Size, error) {
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if bytes := n * float64(u.bytes); err == nil && bytes >= 0 && bytes < 1<<63 {
				return Size(bytes), nil
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("size %q: want bytes with a unit, such as 64KiB or 4GiB", text)
	}
	return Size(n), nil
}

func (s Size) String() string {
	for _, u := range sizeUnits[:3] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Approximate returns the size for people: 1.2 GiB.
func (s Size) Approximate() string {
	v := float64(s)
	for _, u := range [...]struct {
		name  string
		bytes float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if v >= u.bytes || v <= -u.bytes {
			return strconv.FormatFloat(v/u.bytes, 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + " B"
}

// MarshalJSON writes the form that ParseSize reads.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads a string with a unit or a bare number of bytes.
func (s *Size) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data)
	}
	v, err := ParseSize(text)
	*s = v
	return err
}
