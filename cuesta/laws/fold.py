"""What is made of the terms of a law one by one: numbers, bit vectors, text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from xdsl.ir import Attribute

from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.terms import Term, Type

Made = TypeVar("Made")


class Fold(ABC, Generic[Made]):
    """Makes something of each term of a law, once, of what it has made of the term's parts."""

    def __init__(self, law: Law, types: Mapping[Type, Attribute], values: Mapping[Term, Made]) -> None:
        self.law = law
        self.types = types
        self.values: dict[Term, Made] = dict(values)

    def value(self, term: Term) -> Made:
        """What is made of a term."""
        found = self.values.get(term)
        if found is None:
            found = self.values[term] = self.make(term)
        return found

    @abstractmethod
    def make(self, term: Term) -> Made:
        """Makes it, of a term that was not met before."""

    def type(self, term: Term) -> Attribute:
        """The scalar type of a term."""
        return self.types[self.law.types[term]]
