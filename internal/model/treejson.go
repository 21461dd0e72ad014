package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

func (r *reader) jsonDocuments(data []byte) (docs []*tree) {
	j := &jsonReader{reader: r, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	j.dec.UseNumber()
	for !j.atEnd() {
		t, err := j.value(0)
		switch {
		case err == nil:
			docs = append(docs, t)
			continue
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			r.flaw(j.at(int64(len(data))), "", "is the file whole?", "not JSON: it ends in the middle of an object, a list or a text")
		case !errors.Is(err, errTooBig):
			r.flaw(j.at(j.dec.InputOffset()), "", "", "not JSON: %v", err)
		}
		return docs
	}
	return docs
}

// jsonReader reads JSON token by token, because positions come with tokens only.
type jsonReader struct {
	*reader
	data []byte
	dec  *json.Decoder

	line         int   // at scanned
	scanned, bol int64 // how far lines were counted; where the last one begins
}

// at is the place of an offset; offsets only grow.
func (j *jsonReader) at(offset int64) place {
	offset = min(max(offset, j.scanned), int64(len(j.data)))
	for ; j.scanned < offset; j.scanned++ {
		if j.data[j.scanned] == '\n' {
			j.line++
			j.bol = j.scanned + 1
		}
	}
	return place{j.line, int(offset-j.bol) + 1}
}

func (j *jsonReader) atEnd() bool {
	return len(bytes.TrimSpace(j.data[j.dec.InputOffset():])) == 0
}

// next is the place where the token begins that comes next.
func (j *jsonReader) next() place {
	offset := j.dec.InputOffset()
	for offset < int64(len(j.data)) && strings.IndexByte(" \t\r\n,:", j.data[offset]) >= 0 {
		offset++
	}
	return j.at(offset)
}

func (j *jsonReader) value(depth int) (*tree, error) {
	t := &tree{place: j.next()}
	if err := j.count(t.place, depth); err != nil {
		return nil, err
	}
	token, err := j.dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		return t, j.composite(t, v, depth)
	case string:
		t.kind, t.text = text, v
	case json.Number:
		t.kind, t.text = number, v.String()
	case bool:
		t.kind, t.text = boolean, strconv.FormatBool(v)
	}
	return t, nil
}

func (j *jsonReader) composite(t *tree, open json.Delim, depth int) error {
	t.kind = list
	if open == '{' {
		t.kind = mapping
	}
	seen := map[string]bool{}
	for j.dec.More() {
		if t.kind == list {
			item, err := j.value(depth + 1)
			if err != nil {
				return err
			}
			t.items = append(t.items, item)
			continue
		}
		at := j.next()
		name, err := j.dec.Token()
		if err != nil {
			return err
		}
		value, err := j.value(depth + 1)
		if err != nil {
			return err
		}
		if seen[name.(string)] {
			j.flaw(at, "", "keep one of them", "%q stands twice in this object", name)
			continue
		}
		seen[name.(string)] = true
		t.keys = append(t.keys, key{at, name.(string), value})
	}
	_, err := j.dec.Token()
	return err
}
