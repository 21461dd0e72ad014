package journal

import "testing"

// The floor is the lowest position of all sources, with the name of its consumer; a consumer
// that ends holds nothing back.
func TestConsumersFloor(t *testing.T) {
	var c Consumers
	if lowest, ok := c.Floor(); ok {
		t.Fatalf("without consumers the floor is %+v", lowest)
	}
	at := func(number uint64) Position { return Position{Log: 7, Number: number} }
	cursors := []Consumer{{"handler default/lake", at(40)}, {"handler default/kafka", at(25)}}
	c.Add(func() []Consumer { return []Consumer{{"snapshots", at(30)}} })
	c.Add(func() []Consumer { return cursors })
	if lowest, ok := c.Floor(); !ok || lowest != cursors[1] {
		t.Errorf("floor %+v %v, want kafka's", lowest, ok)
	}
	cursors = cursors[:1]
	if lowest, ok := c.Floor(); !ok || lowest.Name != "snapshots" || lowest.At != at(30) {
		t.Errorf("floor %+v %v, want the snapshots'", lowest, ok)
	}
	if list := c.List(); len(list) != 2 || list[1].Name != "handler default/lake" {
		t.Errorf("%+v", list)
	}
}
