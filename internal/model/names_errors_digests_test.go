package model

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestBuiltinChecksAndDefinitionsHaveNames converts the ids of built-in checks to names and back, and expects the same
// ids. Their compiled definitions are converted too.
func TestBuiltinChecksAndDefinitionsHaveNames(t *testing.T) {
	for _, id := range []CheckID{KeepaliveCheck, SessionsCheck, JournalCheck, HistoryCheck, IdentityCheck, WatchdogCheck, StreamsCheck, LimitsCheck, MetricsCheck, FilesCheck, RolloutsCheck} {
		name := BuiltinCheckName(id)
		if name == "" || BuiltinCheckID(name) != id {
			t.Errorf("check %d: name %q leads to %d", id, name, BuiltinCheckID(name))
		}
		if c := BuiltinDefinitionOf(BuiltinDefinitionID(id)); c == nil || c.Unit != id || c.Name != name {
			t.Errorf("check %d: definition %+v", id, c)
		}
	}
	if BuiltinDefinitionOf(5) != nil || BuiltinDefinitionOf(firstBuiltinDefinition) != nil || BuiltinCheckID("disk") != 0 {
		t.Error("what is not built in must not be found")
	}
}

// TestEveryClassHasItsOwnStatusAndExitCode expects each class of errors to have an HTTP status and an exit code of
// its own
func TestEveryClassHasItsOwnStatusAndExitCode(t *testing.T) {
	status, exit := map[int]bool{}, map[int]bool{}
	for i := range classes {
		c := Class(i)
		if status[c.HTTP()] || exit[c.Exit()] || c.Label() == "" {
			t.Errorf("class %d: status %d, exit code %d, label %q", c, c.HTTP(), c.Exit(), c.Label())
		}
		status[c.HTTP()], exit[c.Exit()] = true, true
		if got := ClassOfHTTP(c.HTTP()); got != c {
			t.Errorf("status %d is of class %d, want %d", c.HTTP(), got, c)
		}
	}
	for code, want := range map[int]Class{400: Invalid, 415: Invalid, 502: Internal} {
		if got := ClassOfHTTP(code); got != want {
			t.Errorf("status %d is of class %d, want %d", code, got, want)
		}
	}
}

// TestStreamsAreTextInJSON expects stream ids to be encoded in JSON as text, because JSON numbers above 2⁵³ lose
// digits.
func TestStreamsAreTextInJSON(t *testing.T) {
	for _, id := range []StreamID{0, 7, 1 << 53, 1<<64 - 1} {
		data, err := json.Marshal(Event{Stream: id})
		var m map[string]any
		var e Event
		if err != nil || json.Unmarshal(data, &m) != nil || json.Unmarshal(data, &e) != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if m["stream"] != id.String() || e.Stream != id {
			t.Errorf("%d became %v and %d", id, m["stream"], e.Stream)
		}
	}
	var id StreamID
	if err := id.UnmarshalText([]byte("no number")); ClassOf(err) != Invalid {
		t.Errorf("no number: %v", err)
	}
}

// TestCheckHostPort checks addresses with and without ports and brackets, and expects the right spelling in errors.
func TestCheckHostPort(t *testing.T) {
	for text, want := range map[string]string{
		"muster.example.org:8443": "", "10.0.0.7:8443": "", "[::1]:8443": "", "[fe80::1%eth0]:8443": "",
		"::1:8443":             `"::1:8443" is ambiguous: with a port, write [::1]:8443; without a port, write [::1:8443]:8443`,
		"fd00::7:8443":         `with a port, write [fd00::7]:8443`,
		"fd00::7":              `"fd00::7" has no port: write [fd00::7]:8443`,
		"::1":                  `"::1" has no port: write [::1]:8443`,
		"[::1]":                `"[::1]" has no port: write [::1]:8443`,
		"1:2:3:4:5:6:7:8:8443": `an IPv6 address needs brackets, write [1:2:3:4:5:6:7:8]:8443`,
		"muster":               `"muster" has no port: write muster:8443`,
		"10.0.0.7":             `"10.0.0.7" has no port: write 10.0.0.7:8443`,
		":8443":                `has no host`,
		"muster:":              `invalid port ""`,
		"muster:https":         `invalid port "https"`,
		"muster:0":             `invalid port "0"`,
		"a b:1":                `invalid host "a b"`,
		"https://muster:8443/": `agents do not use HTTP, write muster:8443`,
		"http://muster:8443":   `cannot be read`,
		"":                     `cannot be read`,
	} {
		err := CheckHostPort(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || ClassOf(err) != Invalid) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestNearestFindsTypingErrors looks up misspelt words, and expects the similar word. Two exchanged letters count as
// one typing error.
func TestNearestFindsTypingErrors(t *testing.T) {
	for _, c := range []struct {
		word, want string
		of         []string
	}{
		{"wramup", "warmup", []string{"ramp", "rate", "warmup"}},
		{"stedy", "steady", []string{"step", "steady", "soak"}},
		{"dikss", "disks", []string{"disk", "disks", "dusk"}},
		{"ab", "ba", []string{"abcd", "ba"}},
		{"xyz", "", []string{"steady", "drain"}},
		{"disk", "disk", []string{"disks", "disk"}},
	} {
		if got := Nearest(c.word, c.of); got != c.want {
			t.Errorf("%s: %q, want %q", c.word, got, c.want)
		}
	}
}

// TestSizeForPeople formats sizes for people, and compares the texts, such as 1.5 MiB.
func TestSizeForPeople(t *testing.T) {
	for size, want := range map[Size]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB", 4 << 30: "4.0 GiB", 3 << 40: "3.0 TiB", -2048: "-2.0 KiB",
	} {
		if got := size.Approximate(); got != want {
			t.Errorf("%d is %q, want %q", size, got, want)
		}
	}
}

// TestAssetEnvironment expects the folders of a command's assets at the start of lists such as PATH. A declared
// variable replaces an inherited one.
func TestAssetEnvironment(t *testing.T) {
	inherited := []string{"PATH=/bin", "HOME=/root", "CPATH=/usr/include"}
	own := map[string]string{"LD_LIBRARY_PATH": "/opt/lib", "A": "b", "PATH": "/opt/bin"}
	assets := []AssetDir{{"shared/check-plugins", "/c/1"}, {"ruby.3", "/c/2"}}
	for what, c := range map[string]struct {
		own    map[string]string
		assets []AssetDir
		want   string
	}{
		"nothing": {nil, nil, "HOME=/root CPATH=/usr/include PATH=/bin"},
		"own":     {own, nil, "HOME=/root A=b CPATH=/usr/include LD_LIBRARY_PATH=/opt/lib PATH=/opt/bin"},
		"assets":  {nil, assets, "HOME=/root CHECK_PLUGINS_PATH=/c/1 RUBY_3_PATH=/c/2 CPATH=/c/1/include:/c/2/include:/usr/include LD_LIBRARY_PATH=/c/1/lib:/c/2/lib PATH=/c/1/bin:/c/2/bin:/bin"},
		"both":    {own, assets[:1], "HOME=/root CHECK_PLUGINS_PATH=/c/1 A=b CPATH=/c/1/include:/usr/include LD_LIBRARY_PATH=/c/1/lib:/opt/lib PATH=/c/1/bin:/opt/bin"},
	} {
		if got := strings.Join(AssetEnvironment(inherited, c.own, c.assets), " "); got != strings.ReplaceAll(c.want, ":", string(os.PathListSeparator)) {
			t.Errorf("%s: %s", what, got)
		}
	}
	if !slices.Equal(inherited, []string{"PATH=/bin", "HOME=/root", "CPATH=/usr/include"}) {
		t.Errorf("what is inherited was changed: %v", inherited)
	}
}

// digestOf returns the ResultDigest of results with the given sequence numbers, for tests. A stream is an agent's
// numbered sequence.
func digestOf(numbers []uint64) (o ResultDigest) {
	for _, n := range numbers {
		o = o.Append(0xaabb, n)
	}
	return o
}

// TestResultDigestIsStable compares a digest with a fixed value, because stored snapshots contain digests.
func TestResultDigestIsStable(t *testing.T) {
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

// TestResultDigestSeparatesLists swaps, drops and repeats results in random lists, and expects the digest of each list
// to change.
func TestResultDigestSeparatesLists(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		right := make([]uint64, 4+random.IntN(200))
		next, step := 1+random.Uint64N(1000), 1+random.Uint64N(100) // a check's results mostly come at even distances
		for i := range right {
			right[i] = next
			next += step
		}
		i := random.IntN(len(right) - 2)
		k := i + 1 + random.IntN(len(right)-i-2) // i and k are not the last index
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

// TestResultDigestIsTextInJSON encodes and decodes digests in JSON, and expects hexadecimal text.
func TestResultDigestIsTextInJSON(t *testing.T) {
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

// BenchmarkResultDigest measures the computation of a ResultDigest after one more result
func BenchmarkResultDigest(b *testing.B) {
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

// TestItemsCountAsTheirMaster expects items derived from a master item to count under the master's source. The
// source is that of their values.
func TestItemsCountAsTheirMaster(t *testing.T) {
	s := TemplateSpec{Items: []Item{
		{Key: "load", Interval: "1m"}, {Key: "load1", From: "load"}, {Key: "load2", From: "load1"},
		{Key: "sent", Trapper: true}, {Key: "sent1", From: "sent"}, {Key: "snmp", NotCollected: "SNMP"}, {Key: "snmp1", From: "snmp"},
		{Key: "a", From: "b"}, {Key: "b", From: "a"}, // refused elsewhere: the count must end
	}}
	if n := s.CountSources(); n != (ItemSources{Collected: 3, Trapper: 2, Idle: 4}) {
		t.Errorf("sources %+v; want 3 collected, 2 from trappers, 4 idle", n)
	}
}
