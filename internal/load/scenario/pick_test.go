package scenario

import "testing"

// TestPicksInWords compares the text of picks.
func TestPicksInWords(t *testing.T) {
	for _, c := range []struct {
		pick Pick
		want string
	}{
		{Pick{}, "all"},
		{Pick{Within: "rack"}, "all within one rack"},
		{Pick{Count: 5}, "5 of all"},
		{Pick{Share: 0.1}, "10 % of all"},
		{Pick{Class: "web"}, "all of web"},
		{Pick{Class: "web", Count: 5, Within: "rack"}, "5 of web within one rack"},
		{Pick{Group: "eu"}, "all of group eu"},
		{Pick{Group: "eu", Share: 0.1}, "10 % of group eu"},
		{Pick{Group: "eu", Count: 5}, "5 of group eu"},
	} {
		if got := c.pick.String(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.pick, got, c.want)
		}
	}
	change := Change{Create: 5, Delete: 1, Kind: "check", Group: "eu"}
	if got := change.What(); got != "create 5 and delete 1 checks of group eu" {
		t.Error(got)
	}
}
