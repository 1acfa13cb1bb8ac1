package main

import (
	"encoding/json"

	"github.com/SchwarzIT/hypermatch"
)

type adapted struct{ inner *hypermatch.HyperMatch }

func newMatcher() matcher {
	return adapted{hypermatch.NewHyperMatch()}
}

func (peer adapted) add(id int, rule []byte) error {
	var conditions hypermatch.ConditionSet
	if err := json.Unmarshal(rule, &conditions); err != nil {
		return err
	}
	return peer.inner.AddRule(hypermatch.RuleIdentifier(id), conditions)
}

func (peer adapted) match(event []byte) ([]int, error) {
	var properties []hypermatch.Property
	if err := json.Unmarshal(event, &properties); err != nil {
		return nil, err
	}
	found := peer.inner.Match(properties)
	ids := make([]int, 0, len(found))
	for _, id := range found {
		ids = append(ids, id.(int))
	}
	return ids, nil
}
