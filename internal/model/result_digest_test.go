package model

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// came is the order of these numbers of one stream.
func digestOf(numbers []uint64) (o ResultDigest) {
	for _, n := range numbers {
		o = o.Append(0xaabb, n)
	}
	return o
}

// Snapshots hold it: another function would call every state another one.
func TestOrderStaysAsItIs(t *testing.T) {
	for text, numbers := range map[string][]uint64{
		"00000000": nil, "69d53342": {1}, "e91361e0": {1, 2}, "20895ad2": {1, 2, 3}, "d211395f": {1, 2, 3, 5},
	} {
		if o := digestOf(numbers); o.String() != text {
			t.Errorf("%d is %s, want %s", numbers, o, text)
		}
	}
	if o := ResultDigest(0).Append(0, 0); o.String() != "4e17cf67" {
		t.Errorf("a result without a number is %s", o)
	}
}

// What a server can do wrong with the results of a state while count and last number are right.
func TestOrderTellsListsApart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		right := make([]uint64, 4+random.IntN(200))
		next, step := 1+random.Uint64N(1000), 1+random.Uint64N(100) // a check's results mostly come at even distances
		for i := range right {
			right[i] = next
			next += step
		}
		i := random.IntN(len(right) - 2)
		k := i + 1 + random.IntN(len(right)-i-2) // neither is the last
		swapped, doubled, early, other := slices.Clone(right), slices.Clone(right), slices.Clone(right), slices.Clone(right)
		swapped[i], swapped[k] = right[k], right[i]
		copy(doubled[i:k], right[i+1:k+1]) // i is dropped, k comes twice
		copy(early[i+1:k+1], right[i:k])   // k is dropped, i comes twice
		other[i] = next + 7
		for name, wrong := range map[string][]uint64{"swapped": swapped, "one dropped, a later one twice": doubled, "one dropped, an earlier one twice": early, "another one": other} {
			if digestOf(wrong) == digestOf(right) {
				t.Fatalf("%s: %d and %d are alike", name, right, wrong)
			}
		}
		if o := digestOf(right[i:]).Prepend(digestOf(right[:i]), uint64(len(right)-i)); o != digestOf(right) {
			t.Fatalf("%d in two parts is %s, want %s", right, o, digestOf(right))
		}
	}
	if digestOf([]uint64{1}) == ResultDigest(0).Append(0xaabc, 1) {
		t.Error("the same number of another stream is alike")
	}
}

func TestOrderIsTextInJSON(t *testing.T) {
	data, err := json.Marshal(Event{Order: 0x0abc})
	var m map[string]any
	var e Event
	if err != nil || json.Unmarshal(data, &m) != nil || json.Unmarshal(data, &e) != nil || m["order"] != "00000abc" || e.Order != 0x0abc {
		t.Errorf("%v: %s", err, data)
	}
	data, _ = json.Marshal(Event{})
	if strings.Contains(string(data), `"order"`) {
		t.Errorf("one that is not known: %s", data)
	}
	var o ResultDigest
	if err := o.UnmarshalText([]byte("123456789")); ClassOf(err) != Invalid {
		t.Errorf("more than 32 bits: %v", err)
	}
}

func BenchmarkOrder(b *testing.B) {
	var o ResultDigest
	n := uint64(0)
	for b.Loop() {
		n++
		o = o.Append(0xaabb, n)
	}
	if o == 1 {
		b.Log(o)
	}
}
