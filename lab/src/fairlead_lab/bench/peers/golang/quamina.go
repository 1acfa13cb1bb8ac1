package main

import "quamina.net/go/quamina"

type adapted struct{ inner *quamina.Quamina }

func newMatcher() matcher {
	inner, err := quamina.New()
	check(err)
	return adapted{inner}
}

func (peer adapted) add(id int, rule []byte) error {
	return peer.inner.AddPattern(id, string(rule))
}

func (peer adapted) match(event []byte) ([]int, error) {
	found, err := peer.inner.MatchesForEvent(event)
	ids := make([]int, 0, len(found))
	for _, id := range found {
		ids = append(ids, id.(int))
	}
	return ids, err
}
