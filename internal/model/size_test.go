package model

import "testing"

func TestSizeForPeople(t *testing.T) {
	for size, want := range map[Size]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB", 4 << 30: "4.0 GiB", 3 << 40: "3.0 TiB", -2048: "-2.0 KiB",
	} {
		if got := size.Approximate(); got != want {
			t.Errorf("%d is %q, want %q", size, got, want)
		}
	}
}
