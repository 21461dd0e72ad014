package inventory

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of an inventory.
const (
	MaxEntryBytes = 1024      // of one entry
	MaxFields     = 16        // of one entry
	MaxEntries    = 20_000    // of one node
	MaxBytes      = 1 << 20   // of the entries of one node
	MaxSignal     = 128 << 10 // bytes of entries in one signal: a longer change is sent in several
)

// Entry is one entry of an inventory, such as an installed package. It is a byte with the section, then the fields
// separated by zero bytes. The zero Entry is none.
type Entry string

// New returns an inventory entry with the given section and fields. It removes control characters and cuts a long
// entry; the result is empty if the entry has no name.
func New(s Section, fields ...string) Entry {
	var b strings.Builder
	b.WriteByte(byte(s))
	for i, field := range fields {
		if i > 0 {
			b.WriteByte(0)
		}
		field = strings.TrimSpace(strings.Map(printable, strings.ToValidUTF8(field, "")))
		if i == 0 && field == "" {
			return ""
		}
		for room := MaxEntryBytes - b.Len() - len(fields) + i; len(field) > max(room, 0); {
			_, size := utf8.DecodeLastRuneInString(field)
			field = field[:len(field)-size]
		}
		b.WriteString(field)
	}
	return Entry(strings.TrimRight(b.String(), "\x00"))
}

// printable returns -1 for a control character, so that strings.Map removes the character from a text.
func printable(r rune) rune {
	if isControl(r) {
		return -1
	}
	return r
}

// isControl reports whether a character is an ASCII control character.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// ParseEntry converts an inventory entry of the agent protocol and validates the fields. ok is false if the
// entry is malformed: New never returns such an entry.
func ParseEntry(e model.InventoryEntry) (_ Entry, ok bool) {
	if e.Section == 0 || e.Section > 255 || len(e.Fields) == 0 || len(e.Fields) > MaxFields {
		return "", false
	}
	size := len(e.Fields)
	for _, field := range e.Fields {
		if size += len(field); !utf8.ValidString(field) || strings.TrimSpace(field) != field || strings.IndexFunc(field, isControl) >= 0 {
			return "", false
		}
	}
	if e.Fields[0] == "" || e.Fields[len(e.Fields)-1] == "" || size > MaxEntryBytes {
		return "", false
	}
	return Entry(string([]byte{byte(e.Section)}) + strings.Join(e.Fields, "\x00")), true
}

// Wire converts an inventory entry to the form of the agent protocol.
func (e Entry) Wire() model.InventoryEntry {
	return model.InventoryEntry{Section: uint32(e[0]), Fields: strings.Split(string(e[1:]), "\x00")}
}

// Section returns the section of an inventory entry, such as packages.
func (e Entry) Section() Section { return Section(e[0]) }

// Name returns the first field of an inventory entry, which is its name.
func (e Entry) Name() string { return e.Field(0) }

// Field returns the n-th field of an inventory entry, counted from 0. A missing field is empty.
func (e Entry) Field(n int) string {
	rest := string(e[1:])
	for ; n > 0; n-- {
		var more bool
		if _, rest, more = strings.Cut(rest, "\x00"); !more {
			return ""
		}
	}
	field, _, _ := strings.Cut(rest, "\x00")
	return field
}

// Hash returns the hash of an inventory entry. The sum of an inventory is the sum of the hashes of its entries.
func (e Entry) Hash() uint64 { return xxhash.Sum64String(string(e)) }

// Sum returns one checksum over all entries of an inventory. Agent and server compare their copies by the checksum.
func Sum(entries []Entry) (sum uint64) {
	for _, e := range entries {
		sum += e.Hash()
	}
	return sum
}

// Normalize sorts inventory entries, and removes empty and repeated entries. It cuts the list at the limits of an
// inventory. It reuses the list.
func Normalize(entries []Entry) []Entry {
	slices.Sort(entries)
	entries = slices.Compact(slices.DeleteFunc(entries, func(e Entry) bool { return e == "" }))
	size := 0
	for i, e := range entries {
		if size += len(e); size > MaxBytes || i == MaxEntries {
			return entries[:i]
		}
	}
	return entries
}

// Difference compares two sorted lists, and returns the added and the removed elements. Added elements are only in
// after, and removed elements only in before. All lists are sorted.
func Difference[E cmp.Ordered](before, after []E) (added, removed []E) {
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(before) == 0 || len(after) > 0 && after[0] < before[0]:
			added, after = append(added, after[0]), after[1:]
		case len(after) == 0 || before[0] < after[0]:
			removed, before = append(removed, before[0]), before[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
	return added, removed
}

// Change is an added, removed or replaced entry of an inventory. An added entry has no Before, a removed entry has no
// After; a replacement has the same section and name.
type Change struct {
	Before, After Entry // empty: none
}

// Entry returns the entry that an inventory change added, or the removed entry if none was added.
func (c Change) Entry() Entry { return cmp.Or(c.After, c.Before) }

// Pair combines an added and a removed inventory entry of the same name into one change (a replacement). Two
// entries with the same section and name become one replacement.
func Pair(added, removed []Entry) (list []Change) {
	name := func(e Entry) string { first, _, _ := strings.Cut(string(e), "\x00"); return first }
	used := make([]bool, len(removed))
	for _, e := range added {
		c := Change{After: e}
		if i := slices.IndexFunc(removed, func(r Entry) bool { return name(r) == name(e) }); i >= 0 && !used[i] {
			c.Before, used[i] = removed[i], true
		}
		list = append(list, c)
	}
	for i, e := range removed {
		if !used[i] {
			list = append(list, Change{Before: e})
		}
	}
	slices.SortStableFunc(list, func(a, b Change) int { return strings.Compare(string(a.Entry()), string(b.Entry())) })
	return list
}
