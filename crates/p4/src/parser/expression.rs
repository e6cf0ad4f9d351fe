//! Expressions and types.

use std::rc::Rc;

use num_bigint::BigInt;

use crate::ast::{BinaryOp, Expr, ExprKind, Name, TypeExpr, TypeKind, UnaryOp};
use crate::lexer::Kind;
use crate::number;
use crate::source::Span;

use super::{MAX_DEPTH, Parsed, Parser};

/// What binds a cast or a sign to its operand.
const UNARY: u8 = 13;

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.binary(0)
    }

    /// A value, a mask or a range: what a key can be held against.
    pub(super) fn keyset(&mut self) -> Parsed<Expr> {
        if self.is_word("default") || self.is_word("_") {
            let span = self.advance().span;
            return Ok(Expr { kind: ExprKind::Any, span, depth: 1 });
        }
        let first = self.expression()?;
        let node = match self.token().kind {
            Kind::Mask => ExprKind::Mask,
            Kind::Range => ExprKind::Range,
            _ => return Ok(first),
        };
        self.advance();
        let second = self.expression()?;
        let span = first.span.to(second.span);
        let depth = first.depth.max(second.depth);
        self.tree(node(Box::new(first), Box::new(second)), span, depth)
    }

    /// Operators that bind more strongly than `least`.
    fn binary(&mut self, least: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        while let Some((op, level, tokens)) = self.operator() {
            if level <= least {
                break;
            }
            for _ in 0..tokens {
                self.advance();
            }
            let right = self.binary(level)?;
            let span = left.span.to(right.span);
            let depth = left.depth.max(right.depth);
            left = self.tree(ExprKind::Binary(op, Box::new(left), Box::new(right)), span, depth)?;
        }
        if least == 0 && self.take(Kind::Question) {
            let then = self.nested(|parser| parser.expression())?;
            self.expect(Kind::Colon, "`:`")?;
            let otherwise = self.nested(|parser| parser.expression())?;
            let span = left.span.to(otherwise.span);
            let depth = left.depth.max(then.depth).max(otherwise.depth);
            let kind = ExprKind::Choice(Box::new(left), Box::new(then), Box::new(otherwise));
            return self.tree(kind, span, depth);
        }
        Ok(left)
    }

    /// The operator here, how strongly it binds, and how many tokens it is.
    fn operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let (op, level) = match self.token().kind {
            Kind::OrOr => (BinaryOp::LogicalOr, 1),
            Kind::AndAnd => (BinaryOp::LogicalAnd, 2),
            Kind::Equal => (BinaryOp::Equal, 3),
            Kind::NotEqual => (BinaryOp::NotEqual, 3),
            Kind::Less => (BinaryOp::Less, 4),
            Kind::LessEqual => (BinaryOp::LessEqual, 4),
            Kind::GreaterEqual => (BinaryOp::GreaterEqual, 4),
            Kind::Greater => {
                let (this, next) = (self.peek(0), self.peek(1));
                if next.kind == Kind::Greater && this.text.end == next.text.start {
                    return Some((BinaryOp::ShiftRight, 8, 2));
                }
                (BinaryOp::Greater, 4)
            }
            Kind::Or => (BinaryOp::Or, 5),
            Kind::Xor => (BinaryOp::Xor, 6),
            Kind::And => (BinaryOp::And, 7),
            Kind::ShiftLeft => (BinaryOp::ShiftLeft, 8),
            Kind::Plus => (BinaryOp::Add, 9),
            Kind::Minus => (BinaryOp::Subtract, 9),
            Kind::SaturatingPlus => (BinaryOp::SaturatingAdd, 9),
            Kind::SaturatingMinus => (BinaryOp::SaturatingSubtract, 9),
            Kind::Concat => (BinaryOp::Concat, 9),
            Kind::Times => (BinaryOp::Multiply, 10),
            Kind::Divide => (BinaryOp::Divide, 10),
            Kind::Modulo => (BinaryOp::Modulo, 10),
            _ => return None,
        };
        Some((op, level, 1))
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let op = match self.token().kind {
            Kind::Minus => UnaryOp::Negate,
            Kind::Plus => UnaryOp::Plus,
            Kind::Tilde => UnaryOp::Complement,
            Kind::Not => UnaryOp::Not,
            Kind::OpenParen if self.starts_type(1) => return self.cast(),
            _ => return self.postfix(),
        };
        let start = self.advance().span;
        let operand = self.nested(|parser| parser.unary())?;
        let (span, depth) = (start.to(operand.span), operand.depth);
        self.tree(ExprKind::Unary(op, Box::new(operand)), span, depth)
    }

    fn cast(&mut self) -> Parsed<Expr> {
        let start = self.advance().span;
        let ty = self.ty()?;
        self.expect(Kind::CloseParen, "`)`")?;
        let operand = self.nested(|parser| parser.binary(UNARY))?;
        let (span, depth) = (start.to(operand.span), operand.depth);
        self.tree(ExprKind::Cast(ty, Box::new(operand)), span, depth)
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        loop {
            let (start, depth) = (expr.span, expr.depth);
            let (kind, depth) = match self.token().kind {
                Kind::Dot => {
                    self.advance();
                    (ExprKind::Member(Box::new(expr), self.member_name()?), depth)
                }
                Kind::OpenBracket => self.index(expr)?,
                Kind::OpenParen => self.call(expr, Vec::new())?,
                Kind::Less if self.starts_type(1) => {
                    self.advance();
                    let types = self.type_arguments()?;
                    self.call(expr, types)?
                }
                _ => return Ok(expr),
            };
            let end = self.tokens[self.at.saturating_sub(1)].span;
            expr = self.tree(kind, start.to(end), depth)?;
        }
    }

    /// `[i]` or `[high:low]`
    fn index(&mut self, of: Expr) -> Parsed<(ExprKind, u16)> {
        self.advance();
        let first = self.nested(|parser| parser.expression())?;
        let depth = of.depth.max(first.depth);
        if self.take(Kind::Colon) {
            let low = self.nested(|parser| parser.expression())?;
            self.expect(Kind::CloseBracket, "`]`")?;
            let depth = depth.max(low.depth);
            return Ok((ExprKind::Slice(Box::new(of), Box::new(first), Box::new(low)), depth));
        }
        self.expect(Kind::CloseBracket, "`]`")?;
        Ok((ExprKind::Index(Box::new(of), Box::new(first)), depth))
    }

    fn call(&mut self, callee: Expr, types: Vec<TypeExpr>) -> Parsed<(ExprKind, u16)> {
        self.expect(Kind::OpenParen, "`(`")?;
        let arguments = self.arguments()?;
        let depth = arguments.iter().map(|argument| argument.depth).max().unwrap_or_default();
        let depth = depth.max(callee.depth);
        Ok((ExprKind::Call(Box::new(callee), types, arguments), depth))
    }

    /// Arguments up to the closing parenthesis, which is taken.
    pub(super) fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.separated(Kind::CloseParen, "`)`", |parser| {
            if parser.is_at(Kind::Word) && parser.peek(1).kind == Kind::Assign {
                let span = parser.span();
                return parser.sink.refuse(span, "arguments by name are").refused();
            }
            parser.nested(|parser| parser.keyset())
        })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token();
        let leaf = |kind| Expr { kind, span: token.span, depth: 1 };
        match token.kind {
            Kind::Number => {
                self.advance();
                match number::parse(self.sources.text(token.text)) {
                    Ok(number) => {
                        let value = BigInt::from(number.value);
                        Ok(leaf(ExprKind::Number { value, width: number.width }))
                    }
                    Err(why) => {
                        self.sink.error(token.span, format!("this number cannot be read: {why}")).refused()
                    }
                }
            }
            Kind::Text => {
                self.advance();
                Ok(leaf(ExprKind::Text))
            }
            Kind::OpenParen => {
                self.advance();
                let mut inside = self.nested(|parser| parser.separated_keysets())?;
                let span = token.span.to(self.tokens[self.at.saturating_sub(1)].span);
                if inside.len() == 1 {
                    return Ok(inside.swap_remove(0));
                }
                self.list(inside, span)
            }
            Kind::OpenBrace => {
                self.advance();
                self.nested(|parser| parser.braces(token.span))
            }
            Kind::Word => match self.text_at(0) {
                word @ ("true" | "false") => {
                    let value = word == "true";
                    self.advance();
                    Ok(leaf(ExprKind::Bool(value)))
                }
                "error" => {
                    self.advance();
                    Ok(leaf(ExprKind::ErrorType))
                }
                _ => self.name().map(|name| leaf(ExprKind::Name(name))),
            },
            _ => self.unexpected("an expression"),
        }
    }

    /// What is in braces, which are open: a list, fields by their names, or `#`.
    fn braces(&mut self, open: Span) -> Parsed<Expr> {
        if self.take(Kind::Hash) {
            let close = self.expect(Kind::CloseBrace, "`}`")?;
            return Ok(Expr { kind: ExprKind::Invalid, span: open.to(close), depth: 1 });
        }
        if self.is_at(Kind::Word) && self.peek(1).kind == Kind::Assign {
            let fields = self.separated(Kind::CloseBrace, "`}`", |parser| {
                let name = parser.name()?;
                parser.expect(Kind::Assign, "`=`")?;
                Ok((name, parser.expression()?))
            })?;
            let depth = fields.iter().map(|(_, value)| value.depth).max().unwrap_or_default();
            return self.tree(ExprKind::Fields(fields), self.since(open), depth);
        }
        let items = self.separated(Kind::CloseBrace, "`}`", |parser| parser.expression())?;
        self.list(items, self.since(open))
    }

    /// From there to the last token that was taken.
    fn since(&self, start: Span) -> Span {
        start.to(self.tokens[self.at.saturating_sub(1)].span)
    }

    fn separated_keysets(&mut self) -> Parsed<Vec<Expr>> {
        self.separated(Kind::CloseParen, "`)`", |parser| parser.keyset())
    }

    fn list(&mut self, items: Vec<Expr>, span: Span) -> Parsed<Expr> {
        let depth = items.iter().map(|item| item.depth).max().unwrap_or_default();
        self.tree(ExprKind::List(items), span, depth)
    }

    /// A node above others, the deepest of which has this depth.
    fn tree(&mut self, kind: ExprKind, span: Span, depth: u16) -> Parsed<Expr> {
        if depth >= MAX_DEPTH {
            let message = format!("this expression is more than {MAX_DEPTH} operators deep");
            return self.sink.error(span, message).help("give a part of it to a variable").refused();
        }
        Ok(Expr { kind, span, depth: depth + 1 })
    }

    /// Whether a type stands so many tokens ahead.
    pub(super) fn starts_type(&self, ahead: usize) -> bool {
        if self.peek(ahead).kind != Kind::Word {
            return false;
        }
        match self.text_at(ahead) {
            "bit" | "int" | "bool" | "void" | "varbit" | "tuple" => true,
            // `error.NoError` is a value.
            "error" => self.peek(ahead + 1).kind != Kind::Dot,
            // `Kind.Member` is a value of an enumeration.
            name => self.types.contains(name) && self.peek(ahead + 1).kind != Kind::Dot,
        }
    }

    pub(super) fn ty(&mut self) -> Parsed<TypeExpr> {
        self.nested(|parser| parser.nested_type())
    }

    fn nested_type(&mut self) -> Parsed<TypeExpr> {
        let start = self.span();
        let word = if self.is_at(Kind::Word) { self.text_at(0).to_owned() } else { String::new() };
        let kind = match word.as_str() {
            "bit" | "int" => {
                self.advance();
                match (self.take(Kind::Less), word.as_str()) {
                    (true, word) => {
                        let width = Box::new(self.nested(|parser| parser.width())?);
                        self.expect(Kind::Greater, "`>`")?;
                        if word == "bit" { TypeKind::Bit(width) } else { TypeKind::Int(width) }
                    }
                    (false, "bit") => TypeKind::Bit(Box::new(one(start))),
                    (false, _) => TypeKind::Integer,
                }
            }
            "bool" => self.keyword_type(TypeKind::Bool),
            "error" => self.keyword_type(TypeKind::Error),
            "void" => self.keyword_type(TypeKind::Void),
            "varbit" => {
                return self.sink.refuse(start, "`varbit` is").refused();
            }
            "tuple" => {
                return self.sink.refuse(start, "`tuple` is").help("declare a struct").refused();
            }
            _ => {
                let name = self.name()?;
                if self.take(Kind::Less) {
                    TypeKind::Generic(name, self.type_arguments()?)
                } else {
                    TypeKind::Named(name)
                }
            }
        };
        let end = self.tokens[self.at.saturating_sub(1)].span;
        let mut ty = TypeExpr { kind, span: start.to(end) };
        while self.is_at(Kind::OpenBracket) {
            self.advance();
            let size = self.nested(|parser| parser.expression())?;
            let close = self.expect(Kind::CloseBracket, "`]`")?;
            let span = start.to(close);
            if matches!(ty.kind, TypeKind::Stack(..)) {
                return self.sink.error(span, "a header stack holds headers, not stacks").refused();
            }
            ty = TypeExpr { kind: TypeKind::Stack(Box::new(ty), Box::new(size)), span };
        }
        Ok(ty)
    }

    /// A width: a number, a name, or an expression in parentheses; a `>` ends it.
    fn width(&mut self) -> Parsed<Expr> {
        self.postfix_width()
    }

    fn postfix_width(&mut self) -> Parsed<Expr> {
        // Sums bind more strongly than `>`, and comparisons have no place in a width.
        const ABOVE_SHIFTS: u8 = 8;
        self.binary(ABOVE_SHIFTS)
    }

    fn keyword_type(&mut self, kind: TypeKind) -> TypeKind {
        self.advance();
        kind
    }

    /// Types up to the closing `>`, which is taken.
    fn type_arguments(&mut self) -> Parsed<Vec<TypeExpr>> {
        self.separated(Kind::Greater, "`>`", |parser| parser.ty())
    }

    /// Notes that this name is a type from here on.
    pub(super) fn declare_type(&mut self, name: &Name) {
        self.types.insert(Rc::clone(&name.text));
    }
}

fn one(span: Span) -> Expr {
    Expr { kind: ExprKind::Number { value: BigInt::from(1), width: None }, span, depth: 1 }
}
